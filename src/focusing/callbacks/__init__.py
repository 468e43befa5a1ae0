"""What happens around training, one class a file."""

from focusing.callbacks.clip_foci import ClipFoci
from focusing.callbacks.focus_trajectory import FocusTrajectory
from focusing.callbacks.progress import Progress
from focusing.callbacks.stuck_neurons import StuckNeurons
from focusing.callbacks.throughput import Throughput

__all__ = [
    "ClipFoci",
    "FocusTrajectory",
    "Progress",
    "StuckNeurons",
    "Throughput",
]
