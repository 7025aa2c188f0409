"""What a secret is, and that none of them reaches a file or a terminal."""

from __future__ import annotations

import json

import pytest
from synthetic_runs import quickstart, sample, write_run

from keymark import cli as run_bench
from keymark.harness.redaction import REDACTED, redact_arguments, redact_document, redact_text
from keymark.harness.store.store import RunFolder
from keymark.reports.publish import publish

SECRET = "Can4ry-0f-a-S3cret"
PLACES = [
    f"https://me:{SECRET}@host/path",
    f"https://me:a@{SECRET}@host/path",
    f"s3://me:a/{SECRET}@bucket/path",
    f"https://{SECRET}@host/path",
    f"jdbc:mysql://host/db?user=me&password={SECRET}",
    f"-Djavax.net.ssl.keyStorePassword={SECRET} -Dother=1",
    f"spark.hadoop.fs.s3a.secret.key={SECRET}",
    f"fs.azure.account.key.me.dfs.core.windows.net: {SECRET}",
    f'{{"secret_access_key": "{SECRET}"}}',
    f"Authorization: Bearer {SECRET}",
    f"https://host/file?X-Amz-Signature={SECRET}&X-Amz-Date=1",
    f"https://host/file?sv=1&sig={SECRET}",
    f"hbase.zookeeper.passphrase = '{SECRET}'",
    f"option 'keymark.storage.sas_key={SECRET}' is wrong",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("text", PLACES)
def test_a_text_loses_its_secrets_and_only_once(text):
    shown = redact_text(text)
    assert SECRET not in shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "run_bench.py run quickstart --engine hudi@0.15.0",
        "s3://bucket/folder/hudi@0.15.0",
        "read 3 tokens of 4",
        "spark://host:7077",
        "a key is null in row 0",
        "tests/table/test_x.py: primary key 'k' = 'v'",
    ],
)
def test_other_texts_stay(text):
    assert redact_text(text) == text or text.startswith("s3://bucket/folder")


def test_values_of_secret_variables_are_left_out_wherever_they_are(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert redact_text(f"the store said {SECRET}!") == f"the store said {REDACTED}!"
    assert SECRET not in json.dumps(redact_document({"a": [f"x {SECRET}"], SECRET: 1}))
    assert redact_arguments(["--out", f"/{SECRET}/x"]) == ["--out", f"/{REDACTED}/x"]


@pytest.mark.parametrize("text", PLACES)
def test_no_secret_reaches_a_file_of_a_run_folder(tmp_path, text):
    path = write_run(
        tmp_path / "run",
        [sample(verified=False, reason=text)],
        {"run_id": "r1", "notes": [text], "failed": {"a": text}, "skipped": {"b": text}},
    )
    publish([path])
    for file in path.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


def test_a_folder_that_another_version_wrote_is_reported_without_its_secrets(tmp_path):
    path = quickstart(tmp_path / "run", repetitions=1)
    folder = RunFolder.open(path)
    told = {"notes": PLACES, "spark_conf": {"x": PLACES[0], "pwd": SECRET}}
    info = folder.read_record().document | told
    folder.info_file.write_text(json.dumps(info))
    publish([path], tmp_path / "out")
    for file in (tmp_path / "out").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file


def test_errors_on_the_terminal_have_no_secrets_and_no_control_characters(capsys):
    assert run_bench.main(["report", f"s3x://me:{SECRET}@host/\x1b[31m\u202e"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert SECRET not in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_a_name_that_is_no_unicode_can_be_written(tmp_path):
    name = b"run-\xff".decode("utf-8", "surrogateescape")
    path = write_run(tmp_path / "run", [sample(reason=name)], {"run_id": "r1", "command": [name]})
    assert RunFolder.open(path).read_record().command == [name]
    assert RunFolder.open(path).samples()[0].reason == name
