"""What others published, with its source: the only figures of the page that are typed in."""

CIFAR10 = (
    "Published, for comparison: ViT-Lite with 3.7 million parameters 91.4% in 200 epochs; with "
    "convolutions, CCT-2 with 0.28 million 89.2% in 200, CCT-6 with 3.2 million 94.8% in 200 and "
    "CCT-7 with 3.8 million 96.5% in 300 "
    "([Compact-Transformers](https://github.com/SHI-Labs/Compact-Transformers)); a ResNet-18 96.0% "
    "in 7 minutes on one A100 "
    "([cifar10-airbench](https://github.com/KellerJordan/cifar10-airbench)). We found no public "
    "figure for how soon a ViT gets there."
)
MULTI30K = (
    "Published, for comparison: 41.02 BLEU in lower case on test2016, by a model of this size and "
    "with Moses' tokenizer ([Revisit-MMT](https://github.com/LividWo/Revisit-MMT))."
)
SHAKESPEARE = (
    "Published, for comparison: a validation loss of 1.4697 on tiny Shakespeare, with windows side "
    "by side ([nanoGPT](https://github.com/karpathy/nanoGPT))."
)
