from ._inputs import Images as Images
from ._outcomes import Trial as Trial
from ._outcomes import Truth as Truth
from ._outcomes import judge as judge
from ._outcomes import trial as trial
from ._patient import Patient as Patient
from ._roster import PATIENTS as PATIENTS
from ._roster import patient as patient
