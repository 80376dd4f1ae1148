"""What other libraries call things, and what they are called here: `--learning-rate` is `--lr`.

Whoever comes from Hugging Face's Trainer, timm, nanoGPT, litgpt or fairseq types the names they
know. A name that is unknown here is looked up in one table and answered with the name to type. An
answer names only what exists for the command, the task or the table at hand, so each row lists
our names in the order in which they are tried.
"""

import re
from collections.abc import Callable, Collection, Mapping

# Theirs | ours, the first that exists is the answer | how ours differs. `name.name` is a kind.
CALLED: tuple[tuple[str, str, str], ...] = (
    # The optimizer and its learning rate
    ("learning_rate base_learning_rate init_lr max_lr lr_base", "lr", ""),
    ("wd", "weight_decay", ""),
    ("adam_betas opt_betas", "betas", ""),
    ("adam_beta1 adam_beta2 beta1 beta2", "betas", "which takes both numbers"),
    ("optim opt optimizer_type", "optimizer.name", ""),
    ("lr_scheduler_type lr_scheduler scheduler sched", "lr_schedule.name", ""),
    ("decay_lr", "lr_schedule.name", "a constant one does not decay"),
    ("warmup_updates num_warmup_steps warmup_iters lr_warmup_steps", "warmup_steps warmup", ""),
    ("warmup_steps warmup_ratio", "warmup", "a share of the run below 1, else steps"),
    ("warmup_epochs", "warmup_ratio warmup", "as a share of the run"),
    ("min_lr stop_min_lr min_lr_rate", "min_lr_ratio", "as a share of {lr}"),
    ("layer_wise_decay layerwise_lr_decay", "layer_decay", ""),
    # Steps
    ("num_train_epochs max_epoch max_epochs num_epochs n_epochs", "epochs", ""),
    ("max_update max_iters max_train_steps total_num_update train.max_tokens", "max_steps", ""),
    (
        "gradient_accumulation_steps update_freq accumulate_grad_batches "
        "gradient_accumulation_iters",
        "grad_accum_steps",
        "",
    ),
    ("max_grad_norm max_norm clip_norm clip_grad gradient_clip_val", "grad_clip", ""),
    ("model_ema_decay", "ema_decay", ""),
    ("model_ema use_ema ema", "ema_decay", "0.999 turns it on, 0 off"),
    ("label_smoothing_factor smoothing", "label_smoothing", ""),
    (
        "per_device_train_batch_size per_device_batch_size train_batch_size micro_batch_size "
        "global_batch_size per_gpu_train_batch_size b",
        "batch_size",
        "",
    ),
    (
        "batch_size per_device_train_batch_size per_device_batch_size train_batch_size "
        "micro_batch_size global_batch_size per_gpu_train_batch_size b",
        "batch_tokens",
        "batches are counted in tokens",
    ),
    ("max_tokens", "batch_tokens", ""),
    ("max_tokens batch_tokens", "batch_size", "batches are not counted in tokens"),
    ("fp16 bf16 half amp mixed_precision", "precision", "bf16 or auto"),
    ("dtype torch_dtype amp_dtype model_dtype", "precision", ""),
    ("torch_compile torchcompile compiler", "compile", ""),
    ("random_seed manual_seed data_seed", "train.seed seed", ""),
    ("early_stopping_patience patience_epochs", "patience", ""),
    (
        "eval_strategy evaluation_strategy eval_steps eval_interval val_interval "
        "validate_interval val_check_interval",
        "eval_every",
        "",
    ),
    (
        "save_steps save_interval save_interval_updates save_strategy saving_steps "
        "checkpointing_steps recovery_interval",
        "checkpoint_every",
        "",
    ),
    (
        "save_steps save_interval save_interval_updates save_strategy saving_steps "
        "checkpointing_steps recovery_interval checkpoint_every",
        "checkpoint_seconds",
        "in seconds",
    ),
    ("load_best_model_at_end", "keep_weights", "best or last"),
    (
        "save_total_limit checkpoint_hist keep_last_epochs no_epoch_checkpoints "
        "keep_best_checkpoints",
        "keep_weights",
        "a run keeps one set of weights, best or last",
    ),
    # The shape of a model
    ("d_model n_embd n_embed hidden_size embed_dim embedding_dim model_dim dim", "width", ""),
    ("encoder_embed_dim decoder_embed_dim decoder_output_dim", "width", "of every part"),
    ("n_layer n_layers num_layers num_hidden_layers depth decoder_layers", "layers", ""),
    ("num_decoder_layers", "layers", ""),
    ("num_encoder_layers", "encoder_layers layers", ""),
    ("encoder_layers", "layers", ""),
    ("n_head n_heads num_heads num_attention_heads nhead", "heads", ""),
    ("encoder_attention_heads decoder_attention_heads", "heads", "of every part"),
    (
        "n_kv_head n_kv_heads num_kv_heads num_key_value_heads n_query_groups num_query_groups",
        "kv_heads",
        "",
    ),
    (
        "intermediate_size mlp_dim d_ff d_mlp d_inner n_inner ffn_dim dim_feedforward "
        "ffn_hidden_size encoder_ffn_embed_dim decoder_ffn_embed_dim",
        "mlp_width",
        "",
    ),
    ("mlp_ratio ffn_dim_multiplier", "mlp_width", "a width and not a ratio"),
    ("hidden_act activation_function activation_fn act_layer act", "activation", ""),
    ("norm_layer norm_type norm_class_name normalization", "norm", ""),
    ("layer_norm_eps layer_norm_epsilon layernorm_eps rms_norm_eps", "norm_eps", ""),
    (
        "encoder_normalize_before decoder_normalize_before normalize_before pre_norm prenorm",
        "norm_first",
        "",
    ),
    ("hidden_dropout_prob hidden_dropout resid_pdrop embd_pdrop resid_dropout", "dropout", ""),
    ("drop drop_rate dropout_rate dropout_prob", "dropout", ""),
    ("drop_path_rate drop_connect stochastic_depth_prob", "drop_path", ""),
    ("img_size input_size image_height image_width image_square_size", "image_size", ""),
    ("in_chans num_channels in_channels", "channels", ""),
    ("num_labels n_classes nb_classes", "num_classes", ""),
    ("global_pool pooling classifier_pool", "pool", ""),
    ("position_embedding_type pos_embedding pos_enc_type pos_emb", "pos_embed", ""),
    ("encoder_learned_pos decoder_learned_pos", "pos_embed", "learned or sinusoidal"),
    ("tie_word_embeddings tie_weights tied_embeddings", "tie_embeddings", ""),
    ("share_decoder_input_output_embed share_all_embeddings", "tie_embeddings", ""),
    ("scale_embedding", "scale_embeddings", ""),
    ("type_vocab_size", "token_types", ""),
    ("out_indices", "feature_stage", "of the frozen encoder"),
    # Texts and tokenizers
    (
        "block_size n_positions n_ctx max_position_embeddings tokens_per_sample seq_len "
        "seq_length sequence_length max_seq_len max_seq_length max_sequence_length "
        "max_positions max_source_positions max_target_positions max_source_length "
        "max_target_length max_length max_len model_max_length context_window",
        "max_length context_length",
        "",
    ),
    ("vocabulary_size n_vocab padded_vocab_size nwordssrc nwordstgt", "vocab_size", ""),
    ("tokenizer_name tokenizer_name_or_path tokenizer_type bpe", "tokenizer.name", ""),
    ("threshold thresholdsrc thresholdtgt min_freq min_count", "min_frequency", ""),
    ("do_lower_case do_lowercase uncased", "lowercase", ""),
    ("text_column_name sentence_column", "text_column", ""),
    ("label_column_name", "label_column", ""),
    ("doc_stride stride", "window_overlap", "tokens that two windows share"),
    ("length_grouped_sampling", "group_by_length", ""),
    ("class_weight balanced_class_weights", "class_weights", ""),
    ("mask_prob masked_lm_prob mlm_prob", "mlm_probability", ""),
    ("mask_whole_words whole_word_masking wwm", "whole_word_mask", ""),
    (
        "source_lang target_lang source_language target_language src_lang tgt_lang lang_pairs",
        "direction",
        "such as en-de",
    ),
    # Generation
    ("beam beams beam_size beam_width generation_num_beams num_beam", "num_beams", ""),
    ("lenpen", "length_penalty", ""),
    ("no_repeat_ngram", "no_repeat_ngram_size", ""),
    ("max_len_a", "max_length_ratio", ""),
    ("max_len_b", "max_length_extra", ""),
    (
        "generation_max_length max_gen_len max_generated_tokens max_length max_tokens "
        "max_tokens_to_sample n_predict",
        "max_new_tokens",
        "",
    ),
    ("sampling_topk topk", "top_k", ""),
    ("sampling_topp topp nucleus", "top_p", ""),
    ("stop stop_sequences stop_token", "stop_strings", ""),
    ("num_return_sequences nsamples n_samples", "num_samples", ""),
    # Images
    ("mixup", "mixup_alpha", ""),
    ("cutmix", "cutmix_alpha", ""),
    ("mixup_prob", "mix_prob", ""),
    ("reprob random_erase", "random_erasing", ""),
    ("aa auto_augment autoaugment randaugment", "randaugment_ops", "with {randaugment_magnitude}"),
    ("scale", "crop_scale", "the least share of the area"),
    ("horizontal_flip random_flip", "hflip", ""),
    # Files, folders and machines
    (
        "output_dir out_dir save_dir save_path output_path output experiment results_path "
        "default_root_dir run_dir",
        "out",
        "",
    ),
    (
        "dataset dataset_name dataset_name_or_path data_dir data_path data_root data_bin "
        "train_file train_data train_data_path train_dir trainpref train_path text_file",
        "data",
        "",
    ),
    ("config cfg config_file config_name config_yaml config_path c", "recipe", ""),
    ("resume_from_checkpoint restore_file resume_from", "resume", "with {out}"),
    ("arch architecture model_type model_name", "model.name", ""),
    ("arch architecture model_type model_name model", "kind", ""),
    (
        "model_name_or_path pretrained_model_name_or_path pretrained checkpoint "
        "checkpoint_dir initial_checkpoint initial_checkpoint_dir finetune_from_model "
        "finetune_from init_checkpoint init_from_checkpoint",
        "init_from",
        "",
    ),
    (
        "model_name_or_path pretrained_model_name_or_path pretrained checkpoint",
        "encoder",
        "imagenet, or the run of an image classifier",
    ),
    ("use_cpu no_cuda cpu", "device", "cpu"),
    ("cuda use_cuda gpu gpus accelerator use_mps_device", "device", "auto takes a GPU"),
    ("num_threads n_threads nthreads", "threads", ""),
    ("log_dir logging_dir tensorboard_logdir report_to logger", "tensorboard", ""),
    ("eval_split subset gen_subset valid_subset split_name", "split", ""),
)

# Theirs | what to do instead, for what has no field here. Given where each {field} exists.
MISSING: tuple[tuple[str, str], ...] = (
    (
        "max_steps max_update max_iters max_train_steps total_num_update train.max_tokens",
        "{epochs} says how long a run trains",
    ),
    ("lr_decay_iters lr_decay_steps decay_epochs", "the schedule ends with the run: {epochs}"),
    ("decay_rate dr lr_shrink lr_noise lr_gamma", "{lr_schedule.name} has no such number"),
    ("warmup_lr warmup_init_lr", "the warm-up is linear and begins near 0; {lr} is where it ends"),
    ("adam_eps adam_epsilon opt_eps momentum", "of AdamW and Muon only {betas} can be set"),
    (
        "attention_dropout attn_dropout attn_drop attn_pdrop attention_probs_dropout_prob "
        "relu_dropout activation_dropout act_dropout",
        "the weights of attention are never dropped; nearest is {dropout}",
    ),
    ("layerdrop encoder_layerdrop decoder_layerdrop", "nearest is {drop_path}"),
    (
        "gradient_checkpointing grad_checkpointing checkpoint_activations activation_checkpointing",
        "a smaller {batch_size} with more {grad_accum_steps} saves memory",
    ),
    (
        "gradient_checkpointing grad_checkpointing checkpoint_activations activation_checkpointing",
        "smaller {batch_tokens} with more {grad_accum_steps} saves memory",
    ),
    (
        "num_workers workers j dataloader_num_workers preprocessing_num_workers pin_mem "
        "pin_memory dataloader_prefetch_factor",
        "no worker processes load data; {threads} sets the threads of a CPU",
    ),
    (
        "local_rank nproc_per_node nnodes num_nodes num_gpus devices world_size ddp "
        "distributed_world_size ddp_backend fsdp deepspeed strategy",
        "a run uses one device, which {device} chooses",
    ),
    (
        "per_device_eval_batch_size eval_batch_size validation_batch_size vb batch_size_valid "
        "max_tokens_valid",
        "only that of training can be set: {batch_size}",
    ),
    (
        "per_device_eval_batch_size eval_batch_size validation_batch_size vb batch_size_valid "
        "max_tokens_valid",
        "only that of training can be set: {batch_tokens}",
    ),
    (
        "logging_steps logging_strategy log_interval log_every log_format",
        "figures are written whenever a run is evaluated: {eval_every}",
    ),
    (
        "do_train do_eval do_predict eval_only evaluate",
        "regard train trains, regard evaluate measures, regard predict answers",
    ),
    ("push_to_hub hub_model_id hub_token hub_strategy", "a run stays in its folder: {out}"),
    (
        "overwrite_output_dir overwrite_cache",
        "a run is never overwritten; another {out} begins another",
    ),
    (
        "wandb wandb_log log_wandb wandb_project wandb_run_name with_tracking",
        "the figures are in the run's metrics.jsonl, and {tensorboard} writes them for TensorBoard",
    ),
    (
        "color_jitter vflip jsd_loss aug_splits remode recount gaussian_blur_prob",
        "of images, {randaugment_ops} and {random_erasing} are nearest",
    ),
    (
        "validation_file validation_dir validpref test_file testpref train_val_split val_split "
        "val_data valid_percent data.val_split_fraction",
        "{data} names all splits at once: docs/data.md says how files must lie",
    ),
    ("metric_for_best_model best_checkpoint_metric eval_metric", "each task has one figure that "
     "decides; {keep_weights} says whether the best weights are kept"),
    ("criterion loss loss_fn bce_loss", "the loss follows the task; {label_smoothing} changes it"),
    ("criterion loss loss_fn bce_loss", "the loss follows the task"),
    ("arch architecture model_type model_name", "the model follows the task; {width}, {layers} and "
     "{heads} are its size"),
    ("model_name_or_path pretrained_model_name_or_path pretrained checkpoint checkpoint_dir "
     "initial_checkpoint initial_checkpoint_dir finetune_from_model init_from", "this task begins "
     "from random weights"),
    ("task task_name", "the task is the word after train: regard train TASK"),
    ("attn_implementation use_flash_attention_2 flash_attn", "each call of attention takes the "
     "fastest kernel that gives its result; {attention} says how tokens are weighed"),
    ("lora lora_r lora_rank peft use_peft quantize load_in_4bit load_in_8bit", "weights are "
     "trained as they are, in {precision}"),
    ("prompt start input_text", "what a run is asked stands after it: regard predict RUN TEXT"),
    ("path", "a run stands after the command (regard evaluate RUN), and {split} is of its data"),
    ("predict_with_generate", "texts are always generated where they are measured"),
    ("dataset_config_name dataset_config", "{data} is the whole name of a data set"),
)  # fmt: skip


def answer_flag(flag: str, known_flags: Collection[str]) -> str | None:
    """What a flag that is not among `known_flags` is called here, as a sentence.

    `--learning-rate is called --lr here`; None where the flag is called so nowhere.
    """
    return _answer(flag, known_flags, flags=True)


def answer_key(key: str, known: Collection[str], *, under: str = "") -> str | None:
    """The same for a key of TOML or a keyword: `model.n_embd is called model.width here`.

    `known` are the names below the table `under`, dotted where they lie deeper.
    """
    return _answer(key, known, flags=False, under=under)


def _answer(given: str, known: Collection[str], *, flags: bool, under: str = "") -> str | None:
    full = plain(given)
    leaf = full.rpartition(".")[2]
    spelled = {plain(each): each for each in known}
    shown = given if flags else _join(under, given)

    def ours(name: str) -> str | None:
        found = _find(name, spelled, flags=flags)
        return None if found is None else found if flags else _join(under, found)

    # A name of ours in another table comes before what others call so.
    same = [(leaf, "")] if _is_one(leaf, spelled) else []
    # What another library means by a dotted name may differ from what its last part means.
    theirs = full if full in RENAMED or full in NOT_HERE else leaf
    rows = [*same, *RENAMED.get(theirs, ())] if theirs == leaf else RENAMED.get(theirs, [])
    for name, hint in rows:
        found = ours(name)
        if found is not None and plain(found) != plain(shown):
            words = _filled(hint, ours)
            return f"{shown} is called {found} here{words and f': {words}'}"
    for hint in NOT_HERE.get(theirs, ()):
        if under and "{" not in hint:
            continue  # it is about commands, and this is a key inside a table
        if words := _filled(hint, ours):
            return f"there is no {shown} here: {words}"
    return None


def _find(name: str, spelled: Mapping[str, str], *, flags: bool = False) -> str | None:
    """The name as it is known here: it alone, else the shallowest one that ends in it."""
    table = name.removesuffix(".name")
    if flags and table != name and table in spelled:  # --optimizer muon sets optimizer.name
        return spelled[table]
    if name in spelled:
        return spelled[name]
    ends = [each for each in spelled if each.endswith(f".{name}")]
    return spelled[min(ends, key=_depth)] if ends else None


def _is_one(leaf: str, spelled: Mapping[str, str]) -> bool:
    """Whether one name and no other ends in this as near to the top."""
    depths = sorted(_depth(each) for each in spelled if f".{each}".endswith(f".{leaf}"))
    return bool(depths) and depths[:1] != depths[1:2]


def _filled(hint: str, ours: Callable[[str], str | None]) -> str:
    """The hint with our names in it, or nothing if one of them does not exist here."""
    names = {name: ours(name) for name in re.findall(r"{([\w.]+)}", hint)}
    if None in names.values():
        return ""
    return re.sub(r"{([\w.]+)}", lambda found: str(names[found[1]]), hint)


def plain(name: str) -> str:
    """A name without what differs between flags and keys: `--learning-rate` → `learning_rate`."""
    return name.lstrip("-").replace("-", "_").lower()


def _depth(name: str) -> int:
    return name.count(".")


def _join(under: str, name: str) -> str:
    return f"{under}.{name}" if under else name


RENAMED: dict[str, list[tuple[str, str]]] = {}  # theirs → ours and how it differs, in order
for theirs, names, difference in CALLED:
    for one in theirs.split():
        RENAMED.setdefault(one, []).extend((name, difference) for name in names.split())

NOT_HERE: dict[str, list[str]] = {}  # theirs → what to do instead, in order
for theirs, instead in MISSING:
    for one in theirs.split():
        NOT_HERE.setdefault(one, []).append(instead)
