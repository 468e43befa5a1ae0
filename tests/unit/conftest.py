"""What all unit tests share.

Property tests repeat the same examples; new ones: --hypothesis-profile=explore.
"""

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("default")
