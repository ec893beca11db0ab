"""Finds the name that was meant by an unknown one: of an option, a key, a field, a command or a value.

A name is looked up by its meaning first, because the names of other tools and of older guides (TRL, verl, inspect,
EvalPlus, lm-eval, vLLM, OpenAI, ART, the Aviato guide) are not misspelt: `--num-generations` is `--samples`. Then
follow spelling and common words. Only names that exist in that place are suggested. A test compares the tables with the
real options.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_WORDS: Mapping[str, str] = {
    # Problems and completions
    "completions": "input input_file input_path completion completions_file predictions generations responses outputs"
    " answers solutions samples samples_file results_file candidates",
    "eval_set": "eval_dataset val_dataset validation_set validation_dataset val_files val_data test_files test_set"
    " test_dataset eval_data",
    "problems": "dataset dataset_name dataset_path dataset_id data data_path train_files train_file train_data"
    " train_dataset training_data task tasks task_name benchmark benchmarks suite env environment env_id prompts"
    " prompts_file problem problem_set problem_file problems_file questions input input_file input_path eval_dataset"
    " val_files test_files test_set file dataset_repo hf_dataset",
    "problems=SET:{value}": "dataset_split split train_split test_split eval_split data_split dataset_subset subset",
    "num_problems": "dataset_limit limit max_samples max_examples num_examples n_examples num_tasks n_tasks max_tasks"
    " sample_limit n_problems max_problems num_prompts n_prompts max_prompts dataset_size dataset_max_samples"
    " num_instances max_instances subset_size num_questions max_train_samples train_size first head",
    "eval_problems": "eval_limit eval_size num_eval_problems num_eval_samples max_eval_samples val_size validation_size"
    " test_size held_out num_eval",
    "skip_bad_rows": "skip_errors skip_invalid ignore_errors skip_bad lenient continue_on_error",
    "fields": "column_map columns mapping field_map map_fields schema prompt_column dataset_text_field rename",
    "completion_fields": "completion_map completion_columns completion_column map_completion response_column",
    "language": "lang programming_language prog_lang",
    "show_tests": "tests_shown show_examples num_tests_shown visible_tests public_tests show_checks",
    # Models and generation
    "base_model": "model_name model_id model_path model_name_or_path pretrained student student_model hf_model actor"
    " actor_model policy_model base_model_name",
    "init_from": "checkpoint ckpt init init_checkpoint init_from_checkpoint warm_start weights adapter load load_from"
    " load_checkpoint start_from",
    "model": "model_name model_id model_path model_name_or_path model_args pretrained hf_model llm checkpoint ckpt"
    " policy_model actor_model teacher teacher_model base_model engine weights adapter",
    "base_url": "api_base api_url api_base_url openai_base_url openai_api_base model_base_url model_url endpoint"
    " endpoint_url url server_url inference_url vllm_url server base_uri host address",
    "vllm_server_url": "vllm_url vllm_server_base_url vllm_server_host vllm_host vllm_base_url vllm_server endpoint",
    "service": "service_url reward_url server_url server remote_url url rm_url",
    "steps": "num_steps n_steps max_steps total_steps train_steps training_steps num_train_steps num_training_steps"
    " total_training_steps iterations num_iterations n_iterations iters max_iters max_iterations updates num_updates"
    " optimizer_steps",
    "samples": "trajectories_per_problem trajectories_per_group rollouts_per_example rollouts_per_prompt"
    " rollouts_per_problem rollouts_per_task num_rollouts num_generations n_generations generations"
    " generations_per_prompt group_size grpo_group_size n_samples num_samples samples_per_problem samples_per_task"
    " samples_per_prompt n_samples_per_prompt num_samples_per_task n num_completions completions_per_prompt"
    " completions_per_problem num_trajectories trajectories best_of num_return_sequences rollout_n k"
    " attempts num_attempts repeats num_repeats n_repeats repeat episodes_per_problem responses",
    "eval_samples": "eval_n eval_num_samples n_eval_samples num_eval_generations val_n",
    "few_shot": "num_fewshot n_fewshot num_few_shot n_few_shot fewshot shots num_shots n_shots k_shot icl_examples",
    "few_shot_from": "fewshot_file few_shot_file examples_file demonstrations",
    "system_prompt": "system system_message system_instruction sys_prompt instruction",
    "prompt_template": "template prompt_format instruction_template",
    "chat_template": "chat_template_path chat_template_file jinja_template",
    "top_p": "nucleus nucleus_sampling",
    "stop": "stop_sequences stop_words stop_strings until stop_token eos",
    "extra_body": "gen_kwargs generation_kwargs model_kwargs chat_template_kwargs extra_args sampling_params",
    "temperature": "temp sampling_temperature sample_temperature rollout_temperature",
    "greedy": "do_sample greedy_decoding deterministic no_sample no_sampling",
    "eval_greedy": "greedy",
    "max_tokens": "max_new_tokens max_completion_length max_completion_tokens max_response_length max_gen_toks"
    " max_gen_tokens max_output_tokens max_tokens_to_sample response_length completion_length max_length max_len"
    " max_generation_length max_seq_length max_seq_len max_model_len num_tokens n_tokens max_completion",
    "max_context": "max_model_len max_seq_len max_seq_length context context_length context_window n_ctx",
    "seed": "random_seed rng_seed random_state data_seed",
    "use_model_sampling": "generation_config use_generation_config model_defaults",
    "vllm": "use_vllm vllm_mode inference_engine rollout_engine",
    # Training
    "problems_per_step": "batch_size groups_per_step prompts_per_step tasks_per_step num_groups problems_per_batch"
    " prompts_per_batch train_batch_size rollout_batch_size groups batch bs",
    "batch_size": "train_batch_size per_device_train_batch_size per_device_batch_size per_device_eval_batch_size"
    " eval_batch_size generation_batch_size mini_batch_size rollout_batch_size prompts_per_step batch bs"
    " max_batch_size effective_batch_size completions_per_step episodes_per_step groups_per_step",
    "learning_rate": "lr actor_lr optim_lr step_size learn_rate",
    "lr_schedule": "lr_scheduler lr_scheduler_type scheduler scheduler_type warmup warmup_steps warmup_ratio",
    "beta": "kl kl_coef kl_coeff kl_loss_coef kl_penalty kl_beta kl_weight kl_loss_weight",
    "loss_type": "loss loss_fn loss_function algorithm algo adv_estimator",
    "lora": "use_peft peft use_lora qlora adapters",
    "lora_rank": "lora_r r rank peft_rank lora_dim lora_alpha",
    "eval_every": "eval_steps eval_interval eval_freq eval_frequency test_freq val_freq validation_freq eval_strategy"
    " evaluation_strategy eval_every_steps validate_every",
    "save_steps": "save_interval save_freq save_every save_frequency checkpoint_every checkpoint_interval"
    " checkpoint_steps ckpt_interval save_strategy",
    "keep_checkpoints": "save_total_limit max_checkpoints keep_last keep max_ckpt_to_keep num_checkpoints",
    "set": "trl_args trainer_args override overrides extra_args grpo_config",
    "renderer": "chat_format prompt_renderer",
    "resume": "resume_from_checkpoint resume_from resume_run resume_path resume_mode continue restart retry_run",
    # Episodes
    "rollout": "rollout_type rollout_mode mode multi_turn episode episode_kind env_kind agent",
    "max_attempts": "max_turns num_turns n_turns turns max_rounds rounds attempts num_attempts max_iterations repairs"
    " max_repairs num_repairs repair_turns max_episode_steps",
    "max_tool_calls": "max_turns num_turns n_turns turns max_calls tool_calls max_assistant_turns max_tool_uses"
    " max_rounds",
    "tools": "toolset tool tool_set use_tools tool_config",
    "policy": "actor who player agent",
    "trajectories": "recorded recording replay from_run rollouts episodes",
    "use_openai": "openai use_openai_api",
    # Scoring
    "timeout_seconds": "timeout time_limit timelimit time_out max_time max_seconds execution_timeout exec_timeout"
    " exec_time_limit wall_time run_timeout code_timeout sandbox_timeout sandbox_timeout_seconds deadline"
    " min_time_limit gt_time_limit_factor",
    "check_timeout_seconds": "per_test_timeout test_timeout case_timeout per_case_timeout check_limit test_time_limit",
    "compile_timeout_seconds": "build_timeout compilation_timeout compile_limit compile_time_limit",
    "timeout": "timeout_seconds time_limit max_time deadline",
    "extract": "extraction extractor parser parse answer_format code_extraction sanitize code_format extract_code",
    "reward": "reward_fn reward_func reward_funcs reward_function reward_functions rewards reward_type reward_name"
    " reward_model custom_reward_function scorer scoring scorers grader score_fn scoring_function rubric metric policy",
    "reward=fraction": "partial partial_credit partial_reward continuous fractional pass_fraction",
    "format_reward": "format_weight format_bonus format_coef format_reward_weight",
    "length_penalty": "length_weight length_coef overlong_penalty brevity_penalty",
    "max_cases": "max_tests num_tests n_tests test_limit num_cases max_checks max_test_cases",
    "all_checks": "run_all run_all_tests all_tests no_early_stop no_fail_fast full_tests test_details",
    "prelude": "imports preamble setup setup_code header import_code prefix_code",
    "require_isolated": "isolated strict isolation strict_isolation only_isolated isolate",
    "second_opinion": "double_check recheck verify_failures",
    "max_output_bytes": "max_stdout stdout_limit output_limit max_stdout_bytes max_output output_bytes max_output_size",
    "max_file_bytes": "max_file_size file_limit fsize max_disk disk_limit",
    "caching": "use_cache no_cache dedup deduplicate",
    "cache": "cache_dir cache_path verdict_cache cache_folder",
    "hash_seed": "pythonhashseed python_hash_seed",
    "retries": "max_retries num_retries n_retries retry retry_count retry_attempts max_attempts sandbox_retries",
    "request_retries": "api_retries http_retries llm_retries endpoint_retries max_retries",
    "request_timeout_seconds": "api_timeout client_timeout http_timeout llm_timeout request_time_limit"
    " endpoint_timeout",
    "fail_under": "threshold min_score min_pass_rate fail_below pass_threshold gate minimum fail_on_error min_reward"
    " fail_if_below required_pass_rate",
    "fail_on_flips": "fail_on_change strict fail_on_diff exit_code",
    "exploits": "attack attacks exploit_name category group only select filter",
    # Sandboxes
    "concurrency": "max_concurrency concurrent max_concurrent num_concurrent max_connections max_workers workers worker"
    " num_workers n_workers num_threads n_threads threads parallel n_parallel num_parallel max_parallel parallelism"
    " n_jobs num_jobs jobs j num_proc num_procs num_processes processes procs max_processes max_subprocesses"
    " concurrent_requests request_concurrency max_concurrent_requests max_num_seqs max_running sandboxes num_sandboxes"
    " n_sandboxes batch_size batch bs pool_size concurrency_limit",
    "max_sandboxes": "sandboxes num_sandboxes n_sandboxes max_containers num_containers sandbox_limit pool_size",
    "warm_sandboxes": "prewarm warm_pool warmup_sandboxes prefetch pool_size",
    "runtime": "sandbox sandbox_type sandbox_runtime sandbox_backend sandbox_provider executor provider backend"
    " exec_backend execution_backend env_type environment_type cluster where",
    "backend": "trainer engine training_backend train_backend",
    "image": "docker_image container container_image base_image docker sandbox_image",
    "packages": "requirements pip pip_packages pip_install dependencies deps libraries libs install package modules",
    "sandbox_memory_bytes": "mem memory mem_limit memory_limit memory_limit_mb memory_mb ram max_memory max_mem"
    " max_as_limit sandbox_mem memory_bytes",
    "tags": "label labels tag sandbox_tag sandbox_tags metadata",
    "tag": "label labels tags job job_id",
    "job": "job_id job_name",
    "job_id": "job run_id",
    "budget": "max_cost cost cost_limit price spend max_spend budget_usd max_budget time_budget sandbox_budget",
    "network": "internet allow_internet net egress networking network_mode network_disabled",
    "allow_hosts": "allowed_hosts allowlist whitelist allow_host allowed_domains domains",
    "private_hosts": "private_host internal_hosts local_hosts mirror",
    "fresh_sandboxes": "fresh no_reuse no_cells one_sandbox_each",
    # Service
    "host": "bind address listen addr ip hostname interface",
    "port": "listen_port server_port http_port",
    "certificate": "cert tls_cert ssl_cert ssl_certfile certfile tls ssl https",
    "certificate_key": "tls_key ssl_key ssl_keyfile keyfile private_key cert_key",
    "drain_seconds": "grace grace_period shutdown_timeout graceful_timeout timeout_graceful_shutdown drain_timeout",
    "max_body_bytes": "max_request_size max_body_size body_limit max_payload",
    "max_queue": "queue queue_size backlog max_pending max_waiting queue_limit",
    "access_log": "log_requests request_log",
    "unscorable_reward": "default_reward error_reward fallback_reward",
    "idle_timeout": "idle idle_seconds timeout shutdown_after",
    # Output
    "out": "output output_file out_file output_path outfile results results_file results_path result_path save save_to"
    " save_path log_samples o export",
    "output_dir": "out_dir output output_path checkpoint_dir checkpoints_dir ckpt_dir save_dir save_path save_folder"
    " default_local_dir out o",
    "runs_dir": "run_dir output_dir out_dir log_dir logdir logs_dir results_dir save_dir work_dir workdir log_path"
    " output_path experiment_dir",
    "run_name": "name experiment_name exp_name experiment run_id job_name wandb_run_name wandb_name run tag_name",
    "run": "run_name run_id name experiment",
    "project": "wandb_project project_name wandb_project_name",
    "report_to": "wandb use_wandb tracker trackers logger loggers log_to tracking log_with wandb_mode report",
    "log_level": "loglevel logging logging_level verbosity_level",
    "notify": "webhook on_finish callback hook slack",
    "json_": "format output_format as_json json_output o output jsonl",
    "quiet": "silent no_progress disable_tqdm disable_progress_bar less_output no_progress_bar display q",
    "verbose": "verbosity show_all progress all_lines print_all v vv log_all",
    "config_file": "config_path conf cfg config_name yaml toml recipe params_file settings_file parameters",
    "print_config": "show_config dump_config print_cfg resolve_config",
    "dry_run": "dry dryrun check plan noop simulate estimate what_if cost_estimate",
    # Commands that look and stop
    "limit": "n num count max top head lines last newest",
    "lines": "n num count limit last tail",
    "tail": "lines n last limit",
    "failed": "failures only_failed errors failing",
    "status": "state outcome filter",
    "task": "task_id problem problem_id",
    "grep": "search pattern match regex find filter",
    "watch": "follow live refresh loop f",
    "follow": "watch f tail live stream",
    "interval": "refresh every period n",
    "full": "all no_truncate untruncated wide long",
    "older_than": "age older min_age max_age since before",
    "yes": "assume_yes no_confirm confirm force y noninteractive",
    "force": "yes f hard",
    "all_": "everything a any include_all",
    "output": "format o output_format",
    "open_": "browser show launch",
    "no_open": "no_browser headless",
    "export": "out output save html static",
    "reference": "solution canonical_solution answer",
    "checks": "tests test_cases hidden",
    # Bodies of requests
    "options": "config settings params parameters scoring_options kwargs",
    "code": "source source_code program script solution completion content",
    "stdin": "input stdin_data std_in input_data",
    "files": "inputs input_files attachments",
    "fetch": "fetch_files output_files download outputs",
    "memory_bytes": "memory mem mem_limit memory_limit memory_limit_mb memory_mb ram max_memory",
}
"""Names of other tools by the name of sandrl that has their meaning, as code spells it; one that stands in several rows
means the first of them that exists in its place. After `=`, how the value is to be given."""

NOTES: Mapping[str, str] = {
    **dict.fromkeys(
        ("api_key", "openai_api_key", "key", "token", "auth", "api_token", "hf_token", "wandb_key", "wandb_api_key"),
        "keys are read from the environment only, such as OPENAI_API_KEY, CWSANDBOX_API_KEY or WANDB_API_KEY",
    ),
    **dict.fromkeys(
        ("gpu", "gpus", "device", "devices", "cuda", "num_gpus", "n_gpus", "gpu_ids", "tensor_parallel_size"),
        "models use a GPU if there is one (CUDA_VISIBLE_DEVICES selects it), and sandboxes have none",
    ),
    **dict.fromkeys(
        ("epochs", "num_epochs", "num_train_epochs", "total_epochs", "n_epochs"),
        "training counts optimizer steps (--steps), and evaluation completions of each problem (--samples)",
    ),
    **dict.fromkeys(
        ("pass_at_k", "pass_k", "ks", "k_values"),
        "pass@k is printed for every k that the completions of each problem allow",
    ),
    **dict.fromkeys(
        ("apply_chat_template", "use_chat_template", "chat"),
        "the chat template of a model is used if it has one; --chat-template selects another",
    ),
    **dict.fromkeys(
        ("gradient_accumulation_steps", "grad_accum", "accumulation_steps", "gradient_accumulation"),
        "the gradients of a step are accumulated as its batch requires; TRL's own fields are set with --set",
    ),
    **dict.fromkeys(
        ("debug", "traceback", "stack_trace"), "--debug stands before the command: sandrl --debug … prints tracebacks"
    ),
}
"""What to say of a name that has no counterpart."""

COMMANDS: Mapping[str, str] = {
    "grpo": "train training trl ppo rl rft finetune fine_tune sft fit learn trainer run_grpo reinforce",
    "unsloth": "qlora train_unsloth",
    "art train": "train_art art_train openpipe ruler",
    "art export": "export policy_export save_pretrained checkpoint huggingface merge download_weights",
    "art rollout": "rollout rollouts episodes episode generate collect sample play agent simulate run",
    "reward": "score scores judge grade grading rewards run check execute exec demo verify score_completions test",
    "eval": "evaluate evaluation evals benchmark bench measure pass_at_k lm_eval inspect evalplus codegen leaderboard",
    "redteam": "red_team attack attacks exploit exploits hack security audit",
    "serve": "server api http start host service daemon deploy",
    "view": "ui viewer dashboard gui web browse browser open inspect_view tensorboard",
    "doctor": "diagnose check_env env info status health setup selfcheck verify_install troubleshoot",
    "metrics": "metric stats plot curves history wandb",
    "problems ls": "list datasets dataset tasks sets list_problems benchmarks",
    "problems validate": "validate check_problems lint verify_problems",
    "problems convert": "convert import export transform",
    "problems duplicates": "overlap dedup deduplicate near_duplicates contamination decontaminate",
    "policy build": "build model tiny",
    "prices show": "price cost costs",
    "runs ls": "ls list history experiments jobs list_runs",
    "runs show": "show cat results result",
    "runs tail": "tail log follow",
    "runs rm": "rm remove delete del",
    "runs regrade": "regrade rescore rejudge rerun",
    "runs report": "html report",
    "runs compare": "diff compare delta versus vs significance",
    "sandboxes ls": "list ps containers sandbox list_sandboxes",
    "sandboxes cleanup": "cleanup clean stop kill prune gc purge terminate delete rm remove",
    "sandboxes logs": "log output",
    "sandboxes exec": "exec run shell ssh",
    "sandboxes show": "describe inspect get info",
    "runtime stop": "shutdown stop_daemon kill",
    "runtime logs": "log",
    "runtime serve": "start up run",
    "runtime status": "ps info show",
    "problems show": "cat get describe print",
    "prices set": "add put",
    "prices rm": "remove delete unset",
    "tinker serve": "tinker_server start",
}
"""Other words for commands, as the words of options."""

VALUES: Mapping[str, str] = {
    "local": "container bubblewrap bwrap native localhost subprocess process self",
    "remote": "cloud cwsandbox coreweave aviato wandb aviato_sandbox e2b modal daytona api",
    "ray": "cluster ray_cluster kubernetes k8s slurm distributed",
    "daemonless": "inline no_daemon embedded",
    "binary": "accuracy correct correctness pass passed exact exact_match all pass_fail strict success outcome",
    "fraction": "partial ratio share pass_rate continuous percentage proportion partial_credit mean average",
    "humaneval": "human_eval openai_humaneval he",
    "humanevalplus": "human_eval_plus humaneval_plus evalplus evalplus_humanevalplus",
    "mbppplus": "mbpp_plus evalplus_mbppplus",
    "bigcodebench": "bcb big_code_bench bigcode_bigcodebench",
    "livecodebench": "lcb live_code_bench livecodebench_code_generation_lite code_generation_lite",
    "codecontests": "code_contests deepmind_code_contests",
    "multipl-e": "multiple multiple_humaneval nuprl_multipl_e",
    "bundled": "demo default sample builtin built_in",
    "mbpp": "google_mbpp google_research_datasets_mbpp mostly_basic_python_problems mbpp_sanitized sanitized_mbpp",
}
"""Other words for runtimes, rewards and problem sets."""

_WEAK = frozenset(
    (
        *("max", "min", "num", "n", "number", "per", "of", "the", "size", "second", "byte", "limit", "total", "count"),
        *("value", "use", "enable", "set", "with", "file", "path", "dir", "name", "mode", "type"),
    )
)
_TOKENS = {
    word: token
    for token, words in {
        "concurrency": "concurrent parallel parallelism worker thread job connection process proc",
        "sample": "generation completion trajectory trajectorie rollout response sequence",
        "problem": "dataset data task prompt example instance question",
        "step": "iteration iter update epoch",
        "token": "length len tok toks",
        "memory": "mem ram",
        "timeout": "time deadline",
        "rate": "lr",
        "checkpoint": "ckpt",
        "sandbox": "sandboxe container vm",
        "out": "output result save",
        "retrie": "retry",
        "dir": "directory folder",
    }.items()
    for word in words.split()
}
_CLOSE, _LEAST_SHARE = 0.8, 0.42


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The name that was probably meant.

    Attributes:
        form: How its value is to be given; `{value}` stands for the one that was given. Empty: like that.
    """

    name: str
    form: str = ""

    def value(self, given: str) -> str:
        """The value to give, from the one that was given."""
        return self.form.replace("{value}", given) if self.form else given


def folded(name: str) -> str:
    """A name without dashes, in lower case: `--maxTokens` and `--max-tokens` are `max_tokens`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip().lstrip("-").replace("+", "plus"))
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def meant(name: str, known: Iterable[str], words: Mapping[str, str] | None = None) -> Suggestion | None:
    """The known name that was probably meant; None if none fits. Other words are those of options unless given."""
    asked, names, by_word = _looked_up(name, known, words)
    if not asked or not names:
        return None
    if asked in names or asked in by_word:
        return by_word[asked] if asked not in names else Suggestion(names[asked])
    close = difflib.get_close_matches(asked[:100], [*names, *by_word], n=1, cutoff=_CLOSE)
    if close:
        return by_word[close[0]] if close[0] not in names else Suggestion(names[close[0]])
    found = max(names, key=lambda each: _share(asked, each))
    if _share(asked, found) >= _LEAST_SHARE:
        return Suggestion(names[found])
    return None


def meant_exactly(name: str, known: Iterable[str], words: Mapping[str, str] | None = None) -> Suggestion | None:
    """The known name that an unknown one means, as `meant`, without guesses by spelling and by common words."""
    asked, names, by_word = _looked_up(name, known, words)
    return Suggestion(names[asked]) if asked in names else by_word.get(asked)


def near(name: str, known: Iterable[str], words: Mapping[str, str] | None = None) -> str:
    """Names the known name that may have been meant, as the end of a message; nothing if none fits."""
    found = meant(name, known, words)
    return "" if found is None else f"; did you mean {str(found.name)!r}?"


def _looked_up(
    name: str, known: Iterable[str], words: Mapping[str, str] | None
) -> tuple[str, dict[str, str], dict[str, Suggestion]]:
    names = {folded(each): each for each in reversed(list(known))}
    by_word: dict[str, Suggestion] = {}
    for target, others in (_WORDS if words is None else words).items():
        plain, _, form = target.partition("=")
        if folded(plain) in names:
            for word in others.split():
                by_word.setdefault(word, Suggestion(names[folded(plain)], form))
    return folded(name), names, by_word


def _share(asked: str, name: str) -> float:
    # The share of words that two names have in common; the last word of a name counts more, weak words less.
    ours, theirs = _weights(asked), _weights(name)
    union = {token: max(ours.get(token, 0.0), theirs.get(token, 0.0)) for token in {*ours, *theirs}}
    return sum(union[token] for token in ours.keys() & theirs.keys()) / sum(union.values())


def _weights(name: str) -> dict[str, float]:
    tokens = [each.removesuffix("s") if len(each) > 3 else each for each in name.split("_")]
    tokens = [_TOKENS.get(each, each) for each in tokens]
    weights = {each: 0.2 if each in _WEAK else 1.0 for each in tokens}
    if weights[tokens[-1]] == 1.0:
        weights[tokens[-1]] = 1.2
    return weights
