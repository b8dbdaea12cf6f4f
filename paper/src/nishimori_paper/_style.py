"""The colours of the teachers of the theory, the same in all pictures."""

from nishimori.plot._style import HUES

TEACHER_COLORS = {
    "logit": HUES["black"],
    "probit": HUES["indigo"],
    "affine": HUES["sky"],
    "constant": HUES["purple"],
}
