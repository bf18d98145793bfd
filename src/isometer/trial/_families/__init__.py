"""The families of the trial, a module per kind; importing this package registers all of them."""

from isometer.trial._families import _causal_transformers as _causal_transformers
from isometer.trial._families import _convnets as _convnets
from isometer.trial._families import _convolutional_sequences as _convolutional_sequences
from isometer.trial._families import _denoising as _denoising
from isometer.trial._families import _encoders as _encoders
from isometer.trial._families import _forecasters as _forecasters
from isometer.trial._families import _gated_mlps as _gated_mlps
from isometer.trial._families import _generated as _generated
from isometer.trial._families import _graphs as _graphs
from isometer.trial._families import _library_encoders as _library_encoders
from isometer.trial._families import _library_language as _library_language
from isometer.trial._families import _library_vision as _library_vision
from isometer.trial._families import _mlps as _mlps
from isometer.trial._families import _modern_convnets as _modern_convnets
from isometer.trial._families import _modern_transformers as _modern_transformers
from isometer.trial._families import _operators as _operators
from isometer.trial._families import _patch_mlps as _patch_mlps
from isometer.trial._families import _recurrent as _recurrent
from isometer.trial._families import _residual_convnets as _residual_convnets
from isometer.trial._families import _routed_transformers as _routed_transformers
from isometer.trial._families import _sets as _sets
from isometer.trial._families import _state_space as _state_space
from isometer.trial._families import _tables as _tables
from isometer.trial._families import _unnormalised_convnets as _unnormalised_convnets
from isometer.trial._families import _vision_transformers as _vision_transformers
