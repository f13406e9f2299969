"""What one positional encoding adds to embeddings, or does to scores."""

from headwise.experiments.encoding.claims import ClaimsReport, list_encodings
from headwise.experiments.encoding.examine import examine_encoding
from headwise.experiments.encoding.nothing import NothingReport
from headwise.experiments.encoding.penalty import PenaltyReport
from headwise.experiments.encoding.tables import TableReport
from headwise.experiments.encoding.turning import TurningReport
from headwise.experiments.encoding.waves import WavesReport

EncodingReport = WavesReport | TableReport | TurningReport | PenaltyReport | NothingReport

__all__ = [
    "ClaimsReport",
    "EncodingReport",
    "NothingReport",
    "PenaltyReport",
    "TableReport",
    "TurningReport",
    "WavesReport",
    "examine_encoding",
    "list_encodings",
]
