"""Whoever types the names of another library is told the names of this one, and never a wrong one.

The flags are those of the README files and the documentation of five libraries, with how often
each is used there: `name:uses`. Counted in `huggingface/transformers` at d56c55b (examples,
docs/source/en), `huggingface/pytorch-image-models` at aa4b585 (all .md and .mdx files),
`karpathy/nanoGPT` at 3adf61e (README and config/), `Lightning-AI/litgpt` at 2685705 (all .md
files) and `facebookresearch/fairseq` at 3d262bb (all .md and .rst files). Of flags that serve
other tasks (speech, question answering) or that install something there is none.
"""

import re
from dataclasses import dataclass, field
from functools import cache

import pytest

from regard.config import build, unknown_key
from regard.errors import UserError
from regard.runs.run import train
from regard.typos import typo_of
from regard.usual_names import CALLED, MISSING, NOT_HERE, RENAMED, answer_flag, answer_key

USES = {
    "transformers": """
        output_dir:94 model_name_or_path:75 dataset_name:68 per_device_train_batch_size:65
        learning_rate:45 num_train_epochs:39 max_seq_length:19 eval_strategy:18 fp16:16
        gradient_accumulation_steps:15 save_total_limit:15 warmup_steps:13 save_steps:12 dtype:11
        save_strategy:11 text_column_name:11 doc_stride:10 train_file:10 eval_steps:9
        source_lang:9 target_lang:9 seed:8 load_best_model_at_end:7 weight_decay:7 model_type:6
        bf16:4 label_column_name:4 lr_scheduler_type:4 max_length:4 tokenizer_name_or_path:4
        train_dir:4 adam_beta1:3 adam_beta2:3 do_lower_case:3 generation_max_length:3
        image_height:3 num_warmup_steps:3 resume_from_checkpoint:3 saving_steps:3 use_cpu:3
        config_file:2 max_train_samples:2 base_learning_rate:1 batch_size:1 checkpointing_steps:1
        compile:1 data_dir:1 generation_num_beams:1 report_to:1 tokenizer_name:1""",
    "timm": """
        model:18 data-dir:16 amp:15 epochs:9 lr:9 reprob:9 sched:9 b:8 aa:7 weight-decay:7 drop:5
        drop-path:5 opt:5 amp-dtype:4 model-ema:4 model-ema-decay:4 warmup-epochs:3 img-size:2
        input-size:2 torchcompile:2 c:2 batch-size:1 config:1 dataset:1 grad-accum-steps:1
        in-chans:1""",
    "nanoGPT": """
        batch_size:8 out_dir:8 init_from:6 block_size:4 device:4 compile:3 dropout:3
        eval_interval:3 gradient_accumulation_steps:3 dataset:2 learning_rate:2 n_embd:2 n_head:2
        n_layer:2 beta2:1 decay_lr:1 max_new_tokens:1 min_lr:1 num_samples:1 warmup_iters:1
        weight_decay:1""",
    "litgpt": """
        data:41 precision:34 config:20 out_dir:19 max_new_tokens:11 train.max_seq_length:10
        batch_size:6 data.train_data_path:6 num_samples:5 initial_checkpoint_dir:4
        train.micro_batch_size:4 resume:4 dtype:3 train.global_batch_size:3 device:2
        data.max_seq_length:1 data.seed:1 optimizer:1 optimizer.lr:1 train.epochs:1
        train.lr_warmup_steps:1""",
    "fairseq": """
        arch:122 max-tokens:122 lr:119 optimizer:101 lr-scheduler:95 update-freq:94
        warmup-updates:87 batch-size:77 dropout:77 clip-norm:74 beam:68 save-dir:65 fp16:56
        adam-betas:55 config-yaml:53 label-smoothing:53 weight-decay:51 seed:49 source-lang:49
        target-lang:45 max-epoch:25 stop-min-lr:25 tokens-per-sample:25 share-all-embeddings:20
        bpe:16 lenpen:16 lang-pairs:15 save-interval-updates:15 keep-last-epochs:14
        restore-file:14 no-epoch-checkpoints:14 decoder-normalize-before:12 max-positions:12
        decoder-learned-pos:11 encoder-learned-pos:11 vocab-size:11 max-source-positions:10
        num-classes:10 encoder-normalize-before:9 save-interval:9 thresholdsrc:8 activation-fn:7
        decoder-layers:7 max-len-a:6 max-len-b:5 decoder-embed-dim:4 patience:4 encoder-layers:3
        decoder-attention-heads:2 decoder-ffn-embed-dim:2 nwordssrc:2 sampling-topk:2""",
}
# For these there is nothing here: they are answered with what stands nearest.
NOTHING = {
    "transformers": """
        do_train:57 do_eval:56 per_device_eval_batch_size:36 dataset_config_name:26
        nproc_per_node:23 push_to_hub:21 logging_steps:16 predict_with_generate:13
        attn_implementation:12 gradient_checkpointing:12 validation_file:10 task_name:7
        preprocessing_num_workers:6 max_steps:5 dataloader_num_workers:5 adam_epsilon:3
        layerdrop:3 metric_for_best_model:3""",
    "timm": "j:9 remode:9 decay-epochs:5 decay-rate:5 opt-eps:5 warmup-lr:5 val-split:1",
    "nanoGPT": "wandb_log:7 eval_only:4 lr_decay_iters:4 max_iters:4 log_interval:3 start:2",
    "litgpt": "quantize:18 devices:8 prompt:6 train.max_tokens:5 train.max_steps:4 strategy:3",
    "fairseq": """
        task:157 criterion:98 max-update:62 attention-dropout:40 num-workers:38 log-interval:37
        ddp-backend:36 warmup-init-lr:36 validpref:26 adam-eps:23 total-num-update:17
        best-checkpoint-metric:16 distributed-world-size:11 lr-shrink:9
        checkpoint-activations:8""",
}

OPTIONS = ("recipe", "out", "resume", "device", "threads", "quiet", "tensorboard", "test")
STACK = """width layers heads kv_heads mlp_width activation norm norm_first norm_eps bias dropout
    drop_path init mask attention"""
VIT = f"{STACK} image_size patch_size patch_norm channels num_classes pool pos_embed head_hidden"
DECODER = f"{STACK} vocab_size context_length pos_embed tie_embeddings scale_embeddings"
BERT = f"{STACK} vocab_size context_length pos_embed token_types pooler"
TOKENIZER = "name min_frequency vocab_size split_digits lowercase"
AUGMENT = """crop_padding padding_mode crop_scale hflip randaugment_ops randaugment_magnitude
    random_erasing mixup_alpha cutmix_alpha mix_prob fill"""
TRAIN = """epochs grad_accum_steps grad_clip ema_decay keep_weights eval_every patience precision
    compile cuda_graph deterministic threads checkpoint_seconds seed optimizer.name optimizer.lr
    optimizer.muon_lr optimizer.pretrained_lr_scale optimizer.layer_decay optimizer.weight_decay
    optimizer.betas lr_schedule.name lr_schedule.warmup_ratio lr_schedule.warmup_steps
    lr_schedule.min_lr_ratio"""
# The fields of each task: those of the task itself under "", the others under their table.
TASKS: dict[str, dict[str, str]] = {
    "classify": {
        "": "data batch_size label_smoothing skip_invalid",
        "model": f"name {VIT}",
        "augment": AUGMENT,
    },
    "caption": {
        "": "data batch_size captions_per_image label_smoothing skip_invalid encoder freeze",
        "tokenizer": TOKENIZER,
        "model": DECODER,
        "model.encoder": VIT,
        "augment": AUGMENT,
        "generation": "num_beams length_penalty no_repeat_ngram_size",
    },
    "translate": {
        "": "data direction batch_tokens max_length label_smoothing skip_invalid",
        "tokenizer": TOKENIZER,
        "model": f"{DECODER} encoder_layers",
        "generation": """num_beams length_penalty max_length_ratio max_length_extra
            no_repeat_ngram_size""",
    },
    "language": {
        "": "data batch_size",
        "tokenizer": TOKENIZER,
        "model": DECODER,
        "generation": "max_new_tokens temperature top_k top_p stop_strings seed num_samples",
    },
    "classify-text": {
        "": """data text_column text_pair_column label_column init_from max_train_samples
            batch_tokens max_length window_overlap class_weights group_by_length label_smoothing""",
        "tokenizer": TOKENIZER,
        "model": f"{BERT} num_classes pool classifier_dropout",
    },
    "pretrain-bert": {
        "": "data pairs_per_epoch batch_tokens max_length",
        "loss_weights": "mlm nsp inversion nli",
        "mlm": "mlm_probability mask_token_prob random_token_prob whole_word_mask",
        "tokenizer": TOKENIZER,
        "model": BERT,
    },
}
OWNERS = {"seed": "train.seed", "vocab_size": "tokenizer.vocab_size"}


def dotted(task: str) -> list[str]:
    tables = {**TASKS[task], "train": TRAIN}
    return [f"{t}.{name}".lstrip(".") for t, names in tables.items() for name in names.split()]


@cache
def flags(task: str) -> set[str]:
    """The flags of a task: full names, and last parts where one field is nearest to the top."""
    found = {*OPTIONS, *dotted(task)}
    for name in dotted(task):
        *path, last = name.split(".")
        if last == "name":
            found.add(path[-1])
            continue
        ends = [each for each in dotted(task) if f".{each}".endswith(f".{last}")]
        depths = sorted(each.count(".") for each in ends)
        if OWNERS.get(last) in ends or depths[:1] != depths[1:2]:
            found.add(last)
    return {f"--{name.replace('_', '-')}" for name in found}


def listed(counts: dict[str, str]) -> list[tuple[str, str]]:
    """Library and flag, as it is typed there."""
    names = [(lib, each.split(":")[0]) for lib, text in counts.items() for each in text.split()]
    return [(lib, f"-{name}" if len(name) == 1 else f"--{name}") for lib, name in names]


def is_accepted(flag: str, known: set[str]) -> bool:
    return flag.replace("_", "-") in known


def answers(flag: str) -> dict[str, str | None]:
    """What each task says of a flag: `accepted`, the answer, or None."""
    every = {task: flags(task) for task in TASKS}
    return {
        task: "accepted" if is_accepted(flag, known) else answer_flag(flag, known)
        for task, known in every.items()
    }


def test_the_list_is_long_and_each_use_is_counted():
    names = {flag.lstrip("-").replace("_", "-") for _, flag in listed(USES)}
    assert len(names) >= 120
    assert {lib for lib, _ in listed(USES)} == set(NOTHING) and len(USES) == 5
    for text in (*USES.values(), *NOTHING.values()):
        assert all(re.fullmatch(r"[\w.-]+:[1-9]\d*", each) for each in text.split())


@pytest.mark.parametrize(("library", "flag"), listed(USES))
def test_a_flag_of_another_library_is_accepted_or_answered_with_the_one_to_type(library, flag):
    found = answers(flag)
    named = {task: said for task, said in found.items() if said and "there is no" not in said}
    assert named, f"{flag} of {library} is called so in no task: {found}"
    for task, said in named.items():
        if said != "accepted":
            meant = re.fullmatch(rf"{flag} is called (--[\w.-]+) here(: .+)?", said)
            assert meant is not None and meant[1] in flags(task), said


@pytest.mark.parametrize(("library", "flag"), listed(NOTHING))
def test_a_flag_for_which_there_is_nothing_is_answered_with_what_stands_nearest(library, flag):
    found = [said for task, said in answers(flag).items() if said]
    assert found, f"{flag} of {library} is answered nowhere"
    for said in found:
        assert re.match(rf"there is no {flag} here: \S|{flag} is called --", said), said
    assert any(said.startswith("there is no") for said in found)


def test_no_answer_ever_has_a_name_that_the_task_does_not_know():
    for task in TASKS:
        known = flags(task)
        for theirs in {*RENAMED, *NOT_HERE}:
            said = answer_flag(f"--{theirs}", known) or ""
            named = re.findall(r"--[\w.-]*\w", said.replace(f"--{theirs}", ""))
            assert set(named) <= known, f"{task}: {said}"


def test_without_the_field_there_is_no_answer_rather_than_a_wrong_one():
    assert answer_flag("--learning-rate", {"--epochs"}) is None
    assert answer_flag("--beam", flags("classify")) is None
    assert answer_flag("--img-size", flags("language")) is None
    assert answer_flag("--learning-rate", set()) is None
    assert all(answer_flag(f"--{theirs}", ()) is None for theirs in RENAMED if theirs != "task"
               and theirs not in NOT_HERE)  # fmt: skip


@pytest.mark.parametrize(
    ("task", "flag", "answer"),
    [
        ("classify", "--learning-rate", "--learning-rate is called --lr here"),
        ("classify", "--learning_rate", "--learning_rate is called --lr here"),
        ("classify", "-b", "-b is called --batch-size here"),
        ("classify", "--arch", "--arch is called --model here"),
        (
            "translate",
            "--batch-size",
            "--batch-size is called --batch-tokens here: batches are counted in tokens",
        ),
        ("translate", "--max-tokens", "--max-tokens is called --batch-tokens here"),
        ("translate", "--block_size", "--block_size is called --max-length here"),
        ("language", "--block_size", "--block_size is called --context-length here"),
        ("language", "--optim", "--optim is called --optimizer here"),
        ("language", "--model.n-embd", "--model.n-embd is called --width here"),
        ("language", "--optimizer.lr", "--optimizer.lr is called --lr here"),
        ("language", "--min_lr", "--min_lr is called --min-lr-ratio here: as a share of --lr"),
        (
            "language",
            "--max_iters",
            "there is no --max_iters here: --epochs says how long a run trains",
        ),
        (
            "language",
            "--train.max_tokens",
            "there is no --train.max_tokens here: --epochs says how long a run trains",
        ),
        ("classify-text", "--doc_stride", "--doc_stride is called --window-overlap here: tokens "
         "that two windows share"),
        ("caption", "--model_name_or_path", "--model_name_or_path is called --encoder here: "
         "imagenet, or the run of an image classifier"),
        ("classify", "--zzz", None),
    ],
)  # fmt: skip
def test_the_answer_is_the_field_of_this_task(task, flag, answer):
    assert answer_flag(flag, flags(task)) == answer


def test_a_field_that_comes_later_is_named_as_soon_as_it_is_there():
    known = {*flags("language"), "--max-steps", "--checkpoint-every"}
    assert answer_flag("--max_iters", known) == "--max_iters is called --max-steps here"
    assert answer_flag("--save-steps", known) == "--save-steps is called --checkpoint-every here"


@pytest.mark.parametrize(
    ("task", "key", "under", "answer"),
    [
        ("classify", "learning_rate", "", "learning_rate is called train.optimizer.lr here"),
        ("classify", "learning_rate", "train", "train.learning_rate is called "
         "train.optimizer.lr here"),
        ("classify", "lr", "train", "train.lr is called train.optimizer.lr here"),
        ("classify", "n_embd", "model", "model.n_embd is called model.width here"),
        ("classify", "hidden_size", "model", "model.hidden_size is called model.width here"),
        ("classify", "arch", "", "arch is called model.name here"),
        ("language", "seed", "", None),  # of train, or of generation?
        ("language", "n_positions", "model", "model.n_positions is called "
         "model.context_length here"),
        ("translate", "batch_size", "", "batch_size is called batch_tokens here: batches are "
         "counted in tokens"),
        ("classify", "n_embd", "train", None),
        ("classify", "start", "model", None),  # that answer is about commands
    ],
)  # fmt: skip
def test_a_key_is_answered_with_the_key_of_the_same_table(task, key, under, answer):
    inside = f"{under}." if under else ""
    known = [name.removeprefix(inside) for name in dotted(task) if name.startswith(inside)]
    assert answer_key(key, known, under=under) == answer


def test_a_keyword_is_answered_with_the_short_name_where_that_is_enough():
    known = [*dotted("classify"), "lr", "width"]
    assert answer_key("learning_rate", known) == "learning_rate is called lr here"
    assert answer_key("d_model", known) == "d_model is called width here"


def test_each_name_of_theirs_stands_once_for_each_of_ours():
    rows = [(one, ours) for theirs, ours, _ in CALLED for one in theirs.split()]
    assert sorted(rows) == sorted(set(rows))
    again = [(one, said) for theirs, said in MISSING for one in theirs.split()]
    assert sorted(again) == sorted(set(again))
    for theirs, ours, _ in CALLED:
        assert ours not in theirs.split()


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("widht", ("width", "heads"), "width"),
        ("modle", ("model", "train"), "model"),
        ("toknes", ("tokens", "top_k"), "tokens"),
        ("epoch", ("epochs", "patience"), "epochs"),
        ("--batchsize", ("--batch-size", "--data"), "--batch-size"),
        ("nam", ("name", "epochs"), "name"),
        ("weight_decya", ("weight_decay",), "weight_decay"),
        # What likeness of letters made of these once (each was a wrong hint).
        ("learning_rate", ("lengths", "labels"), None),
        ("max_length", ("lengths", "labels"), None),
        ("hidden_size", ("hidden", "width"), None),
        ("num_labels", ("labels", "model"), None),
        ("max_tokens", ("max_new_tokens",), None),
        ("min_length", ("max_length",), None),
        ("loss_weights", ("class_weights",), None),
        ("randaugment_magnitdue", ("randaugment_magnitude",), "randaugment_magnitude"),
        ("--dest", ("--test",), None),
        ("b", ("d",), None),
        ("x", (), None),
    ],
)
def test_a_slip_of_the_fingers_is_told_from_another_name(name, known, meant):
    assert typo_of(name, known) == meant


# The same where a configuration is built


@dataclass(frozen=True)
class Optimizer:
    name: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.05


@dataclass(frozen=True)
class Train:
    epochs: int = 5
    optimizer: Optimizer = field(default_factory=Optimizer)


@dataclass(frozen=True)
class Config:
    data: str = "digits"
    batch_size: int = 128
    train: Train = field(default_factory=Train)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"learning_rate": 1}, "learning_rate is called train.optimizer.lr here"),
        ({"train": {"num_train_epochs": 1}}, "train.num_train_epochs is called train.epochs here"),
        (
            {"train": {"optimizer": {"wd": 1}}},
            "train.optimizer.wd is called train.optimizer.weight_decay here",
        ),
        ({"train": {"epoch": 1}}, "there is no train.epoch; did you mean train.epochs?"),
        ({"train": {"max_length": 1}}, "there is no train.max_length; [train] has: epochs, "
         "optimizer"),
        ({"hidden_size": 1}, "there is no hidden_size; known: data, batch_size, train"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_answered_or_all_keys_of_its_table_are_listed(values, sentence):
    with pytest.raises(UserError, match=f"^{re.escape(f'mine.toml: {sentence}')}$"):
        build(Config, values, source="mine.toml")


def test_what_is_said_of_a_key_is_a_function_of_the_class_alone():
    assert unknown_key(Config, "dataset") == "dataset is called data here"


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"num_train_epochs": 3}, "num_train_epochs is called epochs here"),
        ({"output_dir": "x"}, "output_dir is called out here"),
        ({"dataset_name": "digits"}, "dataset_name is called data here"),
        ({"model": {"n_embd": 64}}, "model.n_embd is called model.width here"),
        ({"model": {"n_head": 2}}, "model.n_head is called model.heads here"),
    ],
)
def test_a_keyword_of_another_library_is_answered_before_anything_is_trained(
    keywords, sentence, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}$"):
        train("classify", **keywords)
    assert list(tmp_path.iterdir()) == []
