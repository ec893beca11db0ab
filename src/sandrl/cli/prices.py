"""`sandrl prices`: shows and sets the prices of a sandbox-hour on each runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json
from sandrl.cli.tables import Column, Table
from sandrl.settings import load_settings, runtime_names

if TYPE_CHECKING:
    from sandrl.prices import Prices

app = typer.Typer(name="prices", help="Prices of a sandbox-hour on each runtime: show, set, rm.")

_Runtime = Annotated[
    str,
    typer.Argument(
        metavar="RUNTIME", help="The runtime: local, remote, daemonless or ray.", autocompletion=values.priced_runtimes
    ),
]


@app.callback(invoke_without_command=True)
def prices(context: typer.Context) -> None:
    """Show, set or remove the price of a sandbox-hour on each runtime."""
    if context.invoked_subcommand is None:
        show(json_=False)


@app.command("show")
def show(json_: Json = False) -> None:
    """Show the prices that are set, and the file that contains them."""
    known = _load()
    if json_:
        table = {name: str(price) for name, price in sorted(known.by_runtime.items())}
        print_json({"path": str(known.path), "sandbox_hour": table})
        return
    if not known.by_runtime:
        typer.echo("No price is set; set one with: sandrl prices set RUNTIME PRICE", err=True)
        return
    rows = [(name, str(price)) for name, price in sorted(known.by_runtime.items())]
    Table([Column("runtime"), Column("price of a sandbox-hour")], [*rows]).print()
    typer.echo(f"File: {known.path}", err=True)


@app.command("set")
def set_price(
    runtime: _Runtime,
    price: Annotated[
        str,
        typer.Argument(
            metavar="PRICE", help="Price of a sandbox-hour: an amount and a currency, such as '$0.10' or '0.10 EUR'."
        ),
    ],
) -> None:
    """Set the price of a sandbox-hour on a runtime."""
    from sandrl import prices

    changed = prices.set_price(load_settings(), runtime, price)
    typer.echo(f"A sandbox-hour on {runtime} costs {changed.by_runtime[runtime]}")


@app.command("rm")
def remove(runtime: _Runtime) -> None:
    """Remove the price of a runtime. Exits with 0 if there is no price."""
    from sandrl import prices

    if runtime in runtime_names() and runtime not in _load().by_runtime:
        typer.echo(f"There is no price of {runtime}", err=True)
        return
    prices.set_price(load_settings(), runtime, None)
    typer.echo(f"Removed the price of {runtime}")


def _load() -> Prices:
    from sandrl.prices import Prices

    return Prices.load(load_settings())
