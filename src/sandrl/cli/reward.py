"""`sandrl reward`: executes completions in sandboxes and prints their rewards."""

from __future__ import annotations

from sandrl.cli import results
from sandrl.cli.configured import configured
from sandrl.cli.estimate import DryRun, print_estimate
from sandrl.cli.output import Json, print_json
from sandrl.cli.scores import print_report
from sandrl.cli.verbosity import note
from sandrl.cli.work import carry_out
from sandrl.config.scoring import RewardConfig
from sandrl.settings import load_settings


@configured(RewardConfig)
def reward(config: RewardConfig, *, dry_run: DryRun = False, json_: Json = False) -> None:
    """Execute completions in isolated sandboxes and print their rewards."""
    from sandrl.rewards import report_document, run_reward

    if dry_run:
        from sandrl.rewards.run import estimate_reward

        print_estimate(estimate_reward(config, load_settings()), json_output=json_)
        return
    finished = carry_out(run_reward, config, results.choose(json_output=json_))
    if json_:
        print_json({**report_document(finished.report), "hash_seed": config.hash_seed})
    else:
        print_report(finished.report, run=finished.run_dir.name)
    note(f"Run: {finished.run_dir}")
    finished.raise_for_outcome()
