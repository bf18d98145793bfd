from ._diagram import PHASES as PHASES
from ._diagram import TokenDiagram as TokenDiagram
from ._diagram import token_diagram as token_diagram
from ._exponents import Exponents as Exponents
from ._exponents import exponents as exponents
from ._paths import TokenPath as TokenPath
from ._paths import token_path as token_path
