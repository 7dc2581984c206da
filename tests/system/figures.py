"""The figures that must be reached, in one place. They are simulated, so exact: the same on every machine."""

# ep64-full: least efficiency (floor / time), and the time in us that a phase stays under.
FULL_SIZE = {"dispatch": (0.95, 2450), "combine": (0.95, 4750)}
# The same with outputs and their sums in FP8: least efficiency of combine.
FULL_SIZE_FP8_COMBINE = 0.95
# decode64, uniform top-8, one copy a node: the time in us that a phase stays under.
DECODE64 = {"dispatch": 110, "combine": 205}
# The same with outputs and their sums in LogFMT-10, encoded by the devices.
DECODE64_LOGFMT10 = {"dispatch": 110, "combine": 140}
# lossy: goodput as a share of the variant without loss.
LOSSY = {"0.1 %": 0.97, "1 %": 0.85}
# plane-down: goodput as a share of the healthy goodput while one of four planes is down, and how soon it is back.
PLANE_DOWN_SHARE = 0.72
PLANE_BACK_US = 1000
FULL_RATE_SHARE = 0.98
# ep64-policies: published row counts give same_index 2,997 us of payload for 4096 tokens; framing adds about 3 %.
SAME_INDEX_FLOOR_US = 2997 * 1.03
