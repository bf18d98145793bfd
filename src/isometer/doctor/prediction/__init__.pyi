from ._bands import Band as Band
from ._extraction import ExtractedChain as ExtractedChain
from ._extraction import extract as extract
from ._extraction import why_not as why_not
from ._predict_chain import Prediction as Prediction
from ._predict_chain import predict_chain as predict_chain
