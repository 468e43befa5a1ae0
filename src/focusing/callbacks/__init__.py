"""Lightning callbacks of a run, one class per file."""

from focusing.callbacks.clip_foci import ClipFoci
from focusing.callbacks.compiled_network import CompiledNetwork
from focusing.callbacks.dead_inputs import DeadInputs
from focusing.callbacks.explanation import Explanation
from focusing.callbacks.focus_trajectory import FocusTrajectory
from focusing.callbacks.progress import Progress
from focusing.callbacks.pruning_curve import PruningCurve
from focusing.callbacks.search_trial import SearchTrial
from focusing.callbacks.stuck_neurons import StuckNeurons
from focusing.callbacks.throughput import Throughput
from focusing.callbacks.timing import Timing
from focusing.callbacks.window_trajectory import WindowTrajectory

__all__ = [
    "ClipFoci",
    "CompiledNetwork",
    "DeadInputs",
    "Explanation",
    "FocusTrajectory",
    "Progress",
    "PruningCurve",
    "SearchTrial",
    "StuckNeurons",
    "Throughput",
    "Timing",
    "WindowTrajectory",
]
