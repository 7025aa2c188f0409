from __future__ import annotations

import contextlib
import hashlib
import io
from typing import ClassVar
from urllib.error import HTTPError

import pytest

from keymark.harness.engines import format_jars, hudi_releases, ivy, jars, repositories
from keymark.harness.engines.formats import format_name
from keymark.harness.errors import HarnessError

FOLDER = "org/apache/hudi/hudi-spark3.5-bundle_2.12"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository in Maven's layout and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(jars.MAVEN_URL, (tmp_path / "maven").as_uri() + "/")
    return tmp_path / "maven"


def publish(repository, version, content, digest=None):
    folder = repository / FOLDER / version
    folder.mkdir(parents=True)
    jar = folder / f"hudi-spark3.5-bundle_2.12-{version}.jar"
    jar.write_bytes(content)
    digest = hashlib.sha1(content).hexdigest() if digest is None else digest
    jar.with_name(jar.name + ".sha1").write_text(digest)


def ignore(_come, _total):
    pass


@pytest.fixture(autouse=True)
def _spark_of_the_bundles(monkeypatch):
    monkeypatch.setattr(jars.metadata, "version", lambda _: "3.5.9")


def test_a_jar_is_downloaded_once_and_found_from_then_on(repository):
    content = bytes(range(256)) * 9000
    publish(repository, "0.15.0", content, hashlib.sha1(content).hexdigest() + "  a.jar\n")
    assert "keymark engine install hudi@0.15.0" in jars.missing_bundle("0.15.0")
    told = []
    path = jars.install("0.15.0", lambda *progress: told.append(progress))
    assert path == jars.bundle("0.15.0")
    assert path.read_bytes() == content
    assert told[-1] == (len(content), len(content))
    assert jars.missing_bundle("0.15.0") is None
    assert jars.install("0.15.0", lambda *_: pytest.fail("downloaded again")) == path


def test_another_content_than_announced_leaves_nothing(repository):
    publish(repository, "1.1.1", b"jar", digest="0" * 40)
    with pytest.raises(HarnessError, match=r"has SHA-1 [0-9a-f]{40}, not 0{40}"):
        jars.install("1.1.1", ignore)
    publish(repository, "1.1.2", b"jar", digest="")
    with pytest.raises(HarnessError, match="not any"):
        jars.install("1.1.2", ignore)
    assert list(jars.folder().iterdir()) == []


@pytest.mark.parametrize(
    ("end", "told", "match"),
    [
        (TimeoutError("timed out"), HarnessError, "broke off: TimeoutError"),
        (ConnectionResetError("reset"), HarnessError, "broke off: ConnectionResetError"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_download_that_breaks_off_leaves_nothing(repository, monkeypatch, end, told, match):
    publish(repository, "0.15.0", b"jar")

    class Broken(io.BytesIO):
        headers: ClassVar = {"Content-Length": "1000"}

        def read(self, size=-1):
            if chunk := super().read(size):
                return chunk
            raise end

    real = jars.urlopen

    def opened(request, timeout):
        assert timeout
        announced = request.full_url.endswith(".sha1")
        return real(request, timeout=timeout) if announced else Broken(b"half")

    monkeypatch.setattr(jars, "urlopen", opened)
    with pytest.raises(told, match=match):
        jars.install("0.15.0", ignore)
    assert list(jars.folder().iterdir()) == []
    assert jars.installed() == ()


def test_versions_are_in_order_and_other_files_are_none(repository):  # noqa: ARG001
    jars.folder().mkdir(parents=True)
    for version in ("1.1.1", "0.15.0", "1.10.0"):
        jars.bundle(version).touch()
    (jars.folder() / "other.jar").touch()
    assert jars.installed() == ("0.15.0", "1.1.1", "1.10.0")


def test_a_repository_that_is_not_there_is_named(repository):
    with pytest.raises(HarnessError, match=f"{repository}.*KEYMARK_MAVEN_URL"):
        jars.install("0.15.0", ignore)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (404, r"^there is no hudi-spark3\.5-bundle_2\.12 9\.9\.9 .*known for Spark 3\.5 are 0\.15"),
        (503, "HTTP 503 busy"),
    ],
)
def test_what_the_repository_answers_is_told(repository, monkeypatch, code, told):  # noqa: ARG001
    def refuse(request, timeout):  # noqa: ARG001
        raise HTTPError(request.full_url, code, "busy", None, None)

    monkeypatch.setattr(jars, "urlopen", refuse)
    with pytest.raises(HarnessError, match=told):
        jars.install("9.9.9", ignore)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "iceberg@1.99.0",
            (
                r"^there is no iceberg-spark-runtime-3\.5_2\.12 1\.99\.0 .*\(known for "
                r"Spark 3\.5 are 1\.4\.0 to 1\.\d+\.0; Iceberg's build for Spark 4\.0 is"
            ),
        ),
        (
            "delta@3.99.0",
            r"^there is no delta-spark_2\.12 3\.99\.0 .*known for Spark 3\.5 are 3\.0\.0",
        ),
        ("iceberg@1.9.9", r"^there is no iceberg-spark-runtime-3\.5_2\.12 1\.9\.9 \(\S+\)$"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_later_release_of_a_format_without_a_build_is_told_which_builds_fit(
    monkeypatch, name, told
):
    def refuse(request, timeout):  # noqa: ARG001
        raise HTTPError(request.full_url, 404, "not found", None, None)

    monkeypatch.setattr(jars, "urlopen", refuse)
    named = format_name(name)
    with pytest.raises(HarnessError, match=told):
        format_jars.install_jars(named, lambda _: contextlib.nullcontext(ignore))
    missing = format_jars.missing_jars(name)
    assert missing.startswith(f"{named.release.title} {named.version} is not in the cache; ")
    assert ("known for Spark 3.5 are" in missing) == name.endswith(".99.0")


def test_other_jars_are_fetched_into_a_folder_of_theirs(repository):
    jar = ("com/example", "thing", "1.2")
    target = repository / "com/example/thing/1.2/thing-1.2.jar"
    names = []

    def shown(name):
        names.append(name)
        return contextlib.nullcontext(ignore)

    with pytest.raises(HarnessError, match=r"thing-1\.2\.jar"):
        jars.fetch(jar, "place", shown)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"jar")
    target.with_name("thing-1.2.jar.sha1").write_text(hashlib.sha1(b"jar").hexdigest())
    path = jars.fetch(jar, "place", shown)
    assert path == jars.folder() / "place" / "thing-1.2.jar"
    assert path.read_bytes() == b"jar"
    assert jars.fetch(jar, "place", shown) == path
    assert names == ["thing-1.2.jar"] * 2
    assert jars.installed() == ()


@pytest.mark.usefixtures("repository")
def test_a_bundle_is_not_for_another_spark(monkeypatch):
    monkeypatch.setattr(jars.metadata, "version", lambda _: "4.3.0")
    path = jars.bundle("0.15.0")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    told = jars.missing_bundle("0.15.0")
    assert "its bundle for Spark 3.5; this is 4.3.0, and an environment with PySpark 3.5" in told


@pytest.mark.usefixtures("repository")
def test_a_release_without_a_bundle_is_told_with_those_that_have_one():
    known = "(known for Spark 3.5 are 0.15.0, 1.0.1, 1.0.2, 1.1.1, 1.2.0)"
    for version in ("12.3.45", "1.0.0", "1.1.0", "1.2.1"):
        told = jars.missing_bundle(version)
        assert told.endswith(f"keymark engine install hudi@{version} {known}")
    assert all(known not in jars.missing_bundle(version) for version in hudi_releases.BUNDLED)


SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0">
<servers><server><id>ours</id><username>me</username><password>${env.TOKEN}</password></server>
</servers><mirrors>%s</mirrors></settings>"""


def mirror(of, url="https://mirror.example/maven/", extra=""):
    return f"<mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>{url}</url>{extra}</mirror>"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home without any settings."""
    for name in (jars.MAVEN_URL, "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "home" / ".m2").mkdir(parents=True)
    (tmp_path / "home" / ".ivy2").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("mirrors", "url"),
    [
        (mirror("*"), "https://mirror.example/maven"),
        (mirror("external:*,!other"), "https://mirror.example/maven"),
        (mirror("a, central"), "https://mirror.example/maven"),
        (mirror("*", "https://all.example") + mirror("central"), "https://mirror.example/maven"),
        (mirror("*,!central"), None),
        (mirror("external:http:*", extra="<blocked>true</blocked>"), None),
        (mirror("other"), None),
        ("", None),
    ],
)
def test_the_mirror_of_mavens_settings_is_asked(home, mirrors, url):
    (home / ".m2" / "settings.xml").write_text(SETTINGS % mirrors)
    found = repositories.repository()
    assert (found and found.url) == url


def test_the_variable_wins_and_a_mirrors_login_is_sent_and_not_shown(home, monkeypatch):
    (home / ".m2" / "settings.xml").write_text(SETTINGS % mirror("*"))
    monkeypatch.setenv("TOKEN", "s3cret")
    found = repositories.repository()
    assert found.headers == {"Authorization": "Basic bWU6czNjcmV0"}
    assert "bWU6czNjcmV0" not in repr(found)
    monkeypatch.setenv(jars.MAVEN_URL, "https://named.example/")
    assert repositories.repository() == repositories.Repository("https://named.example")


def test_settings_that_are_no_xml_are_named(home):
    (home / ".m2" / "settings.xml").write_text("<settings>")
    with pytest.raises(HarnessError, match=r"\.m2/settings\.xml cannot be read"):
        jars.install("0.15.0", ignore)


IVY_SETTINGS = """<ivysettings><settings defaultResolver="ours"/><resolvers>
<ibiblio name="ours" m2compatible="true" root="%s"/></resolvers></ivysettings>"""


@pytest.mark.parametrize("place", ["home", "spark"])
def test_without_a_mirror_ivy_is_asked_with_the_users_settings(home, tmp_path, monkeypatch, place):
    content = b"jar" * 1000
    publish(tmp_path / "maven", "0.15.0", content)
    publish(tmp_path / "maven", "1.1.1", content, digest="0" * 40)
    settings = home / ".ivy2" / "ivysettings.xml"
    if place == "spark":
        settings = tmp_path / "ours.xml"
        (tmp_path / "spark-defaults.conf").write_text(f"spark.jars.ivySettings  {settings}\n")
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings.write_text(IVY_SETTINGS % (tmp_path / "maven").as_uri())
    told = []
    path = jars.install("0.15.0", lambda *progress: told.append(progress))
    assert path.read_bytes() == content
    assert told[-1] == (len(content), len(content))
    with pytest.raises(HarnessError, match=r"no hudi-spark3\.5-bundle_2\.12 1\.1\.1: .*sha1"):
        jars.install("1.1.1", ignore)
    told = f"in none of its repositories.*{jars.MAVEN_URL}.*known for Spark 3.5 are 0.15.0"
    with pytest.raises(HarnessError, match=told):
        jars.install("9.9.9", ignore)
    assert [each.name for each in jars.folder().iterdir()] == [path.name]


def test_ivy_needs_a_java(home, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(ivy, "java_home", lambda: None)
    with pytest.raises(HarnessError, match="Ivy needs a Java"):
        jars.install("0.15.0", ignore)
