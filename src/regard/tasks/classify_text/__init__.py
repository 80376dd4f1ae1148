"""Tell texts apart, by what they say: a review that praises from one that blames."""
