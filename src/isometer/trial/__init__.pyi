from ._family import Blueprint as Blueprint
from ._family import Family as Family
from ._roster import families as families
from ._roster import family_named as family_named
from ._tasks import TASKS as TASKS
from ._tasks import Task as Task
