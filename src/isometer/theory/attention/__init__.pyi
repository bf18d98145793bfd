from ._softmax import FINE as FINE
from ._softmax import OneRowMoments as OneRowMoments
from ._softmax import Rule as Rule
from ._softmax import TwoRowMoments as TwoRowMoments
from ._softmax import pair_moments as pair_moments
from ._softmax import row_moments as row_moments
from ._table import SoftmaxMoments as SoftmaxMoments
from ._table import softmax_moments as softmax_moments
