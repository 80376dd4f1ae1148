"""Fast paths of attention: each has a plain twin that it is compared with."""
