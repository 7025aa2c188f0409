"""The command `plan`; only modules named `cli` print.

What takes long to import is imported where it is needed: `plan --json` answers from the constants.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keymark.harness.engines import NATIVE
from keymark.harness.store import run_folder_mirror
from keymark.indexes.workload import LOCAL_BYTES
from keymark.reports.errors import ReportError
from keymark.reports.plan import answer, calibration, flags, price, render
from keymark.reports.plan import constants as fitted
from keymark.reports.plan.answer import PlanRequest
from keymark.reports.plan.calibration import Calibration
from keymark.reports.plan.inputs import Inputs
from keymark.reports.plan.price import Bill
from keymark.reports.plan.price_list import Machine
from keymark.reports.plan.spans import Span
from keymark.reports.render.text import clean


def plan(
    *,
    engine: flags.Engine = None,
    records: flags.Records = None,
    batch: flags.Batch = None,
    partitions: flags.Partitions = flags.TEN,
    executors: flags.Executors = flags.ONE,
    cores: flags.Cores = None,
    files: flags.Files = None,
    shards: flags.Shards = None,
    buckets: flags.Buckets = None,
    row_bytes: flags.RowBytes = None,
    key_bytes: flags.KeyBytes = None,
    new_share: flags.NewShare = flags.HALF,
    ordered: flags.Ordered = False,
    keys_stay: flags.KeysStay = False,
    merge_on_read: flags.MergeOnRead = False,
    store: flags.Store = "",
    index: flags.Index = None,
    local_bytes: flags.LocalBytes = LOCAL_BYTES,
    broadcast_bytes: flags.BroadcastBytes = 10 << 20,
    calibration_: flags.Calibration = None,
    fit_rows: flags.FitRows = None,
    machine: flags.Machine = None,
    prices: flags.Prices = None,
    writes_per_day: flags.WritesPerDay = None,
    score: flags.Score = None,
    predictions: flags.Predictions = None,
    predict: flags.Predict = None,
    constants: flags.Constants = False,
    save: flags.Save = None,
    html: flags.Html = None,
    as_json: flags.AsJson = False,
) -> None:
    """Predict what each index costs for a table, and recommend one; or score predictions."""
    known = _calibration(engine, calibration_ or [], fit_rows)
    task = _Task(predict, score or (), predictions, constants=constants, as_json=as_json)
    if task.do(known, save) or (save is not None and None in (records, batch)):
        return
    records, batch = _needed(records, batch)
    ranges = {
        "records": records,
        "batch": batch,
        "partitions": partitions,
        "executors": executors,
        "cores": _cores(cores, machine, known),
        "files": files,
        "row_bytes": row_bytes or Span.of(known.row_bytes),
        "key_bytes": key_bytes or Span.of(known.key_bytes),
        "new_share": new_share,
    }
    inputs = Inputs(
        spans={name: span for name, span in ranges.items() if span is not None},
        shards=shards or 0,
        buckets=buckets,
        ordered=ordered,
        local_bytes=local_bytes,
        broadcast_bytes=broadcast_bytes,
    )
    wish = PlanRequest(
        at=inputs.workload(inputs.middle),
        executors=round(executors.middle),
        keys_stay=keys_stay,
        merge_on_read=merge_on_read,
        store=store,
        indexes=tuple(index or ()),
        bill=_bill(prices, machine, writes_per_day),
    )
    also = _own(known, wish, inputs) if engine is None and not calibration_ else None
    _tell(answer.plan(known, wish, inputs), also, html, as_json=as_json)


@dataclass(frozen=True)
class _Task:
    """What is asked of a calibration, instead of a plan with it.

    Attributes:
        predict: a scenario whose cells are to be predicted.
        score: runs that its predictions are to be compared with.
        predictions: a file of those that are judged.
        constants: whether to print its constants.
        as_json: whether in JSON.
    """

    predict: str | None
    score: Sequence[str]
    predictions: Path | None
    constants: bool
    as_json: bool

    def do(self, known: Calibration, save: Path | None) -> bool:
        """Do it, and keep what there is to keep; whether that was all that was asked for."""
        if self.predictions and not self.score:
            raise ReportError("--predictions is for --score RUN, which it is compared with")
        if self.predict:
            _predict(known, self.predict, save, as_json=self.as_json)
            return True
        if self.score:
            known = _score(known, self.score, self.predictions, as_json=self.as_json)
        elif self.constants:
            _constants(known, as_json=self.as_json)
        if save is not None:
            save.write_text(known.to_json(), encoding="utf-8")
        return bool(self.score or self.constants)


def _cores(cores: Span | None, machine: Machine | None, known: Calibration) -> Span:
    """The cores of an executor: those said, or the machine's, or the calibration's."""
    if machine is None:
        return cores or Span.of(known.cores)
    if cores is not None:
        raise ReportError(f"{machine.name} has {machine.cores} cores: leave --cores out")
    return Span.of(machine.cores)


def _bill(
    prices: Path | None, machine: Machine | None, writes_per_day: float | None
) -> Bill | None:
    if machine is not None or prices is not None:
        return price.load(prices, machine, writes_per_day)
    if writes_per_day is not None:
        raise ReportError("--writes-per-day is for a cost: it needs --machine or --prices")
    return None


def _own(known: Calibration, wish: PlanRequest, inputs: Inputs) -> answer.Plan | None:
    """The answer for Keymark's own engine, to stand beside that of another one."""
    return None if known.engine == NATIVE else answer.plan(calibration.load(), wish, inputs)


def _needed(records: Span | None, batch: Span | None) -> tuple[Span, Span]:
    if records is None or batch is None:
        raise ReportError("plan needs --records and --batch, or --score RUN, or --constants")
    return records, batch


def _tell(made: answer.Plan, also: answer.Plan | None, html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        from keymark.reports.plan import page  # noqa: PLC0415  templates, only for a page

        html.write_text(page.html(made, also), encoding="utf-8")
    if as_json:
        print(json.dumps(answer.document(made, also), indent=2, allow_nan=False))
        return
    print(render.about(made.calibration.engine))
    print_lines(render.lines(made))
    print_lines(render.beside(made, also) if also else [])
    print_table(*render.table(made))
    if html is not None:
        print(f"page: {clean(html)}")


def _calibration(engine: str | None, names: Sequence[str], fit_rows: int | None) -> Calibration:
    """The package's own fit, a saved one, or that of calibration runs."""
    paths = [run_folder_mirror.local(name) for name in names]
    if not paths or (len(paths) == 1 and paths[0].is_file()):
        if fit_rows is not None:
            raise ReportError("--fit-rows is for a fit: it needs --calibration RUN, a run folder")
        return calibration.load_for(engine, paths[0] if paths else None)
    from keymark.reports.model import projection  # noqa: PLC0415
    from keymark.reports.plan import fit  # noqa: PLC0415  numpy and scipy, only for a fit

    runs = projection.load(paths)
    return fit.calibrate(
        runs, engine=engine or fit.only_engine(runs), most_rows=fit_rows or math.inf
    )


def _predict(known: Calibration, scenario: str, save: Path | None, *, as_json: bool) -> None:
    """Write down what is predicted of a scenario's cells, to be judged by after it has run."""
    from keymark.harness.scenario.planned import planned  # noqa: PLC0415
    from keymark.reports.plan import ahead  # noqa: PLC0415  not for a prediction of a table

    made = ahead.predict(known, planned(scenario))
    if save is not None:
        save.write_text(made.to_json(), encoding="utf-8")
    if save is None or as_json:
        print(made.to_json(), end="")
    else:
        print(f"predictions of {len(made.cells)} cells for {made.engine}: {clean(save)}")


def _score(
    known: Calibration, names: Sequence[str], predictions: Path | None, *, as_json: bool
) -> Calibration:
    """Print the score, and note what it found: the largest table, and errors by distance."""
    from keymark.reports.model import projection  # noqa: PLC0415
    from keymark.reports.plan import ahead, score  # noqa: PLC0415  not for a prediction

    committed = ahead.load(predictions, known) if predictions else None
    runs = projection.load([run_folder_mirror.local(name) for name in names])
    made = score.score(known, runs, committed)
    if as_json:
        print(json.dumps(score.document(made), indent=2, allow_nan=False))
    else:
        print_table(*render.score_table(made.off))
        print("\nof all indexes, by distance")
        print_table(*render.score_table(made.distances))
        print_lines(render.score_lines(made))
    rows = max(known.scored_rows, made.largest_rows)
    return replace(known, scored_rows=rows, errors=score.with_errors(known.errors, made))


def _constants(known: Calibration, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(fitted.document(known), indent=2, allow_nan=False))
        return
    print_table(*render.constants_table(known))
    print(f"fitted on {known.where} (calibration {known.name})")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; without the ranges where it is too wide."""
    from rich import box  # noqa: PLC0415  not for --json
    from rich.console import JustifyMethod  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from keymark import terminal  # noqa: PLC0415

    console = terminal.console()
    unlimited = console.options.update(max_width=1000)
    medians = [[text.partition(" (")[0] for text in row] for row in rows]
    upright = [head.replace(" ", "\n") for head in heads]
    for names, texts in ((heads, rows), (upright, medians)):
        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for name in names:
            side: JustifyMethod = "right" if shown.columns else "left"
            shown.add_column(name, justify=side, overflow="fold")
        for row in texts:
            shown.add_row(*row)
        if console.measure(shown, options=unlimited).maximum <= console.width:
            break
    console.print(shown)
    if texts is medians:
        print("The table leaves out the ranges to fit; --json and --html have them.")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines."""
    for line in lines:
        print(line)
