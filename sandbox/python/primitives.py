"""bind, infer, submit_answer and the claims they return.

Invariant: a claim in the session is a handle. Which claim it is, is looked up by the object's
identity, so that editing or forging one changes nothing; what is accepted, the graph decides.
"""
import string
import sys

NAME_CHARS = 60
REPR_CHARS = 200
MAX_VALUES = 200
MAX_CLAIMS = 1000

_making = object()


class Claim:
    """A claim of the evidence graph: its id, and its text as content or text."""

    __slots__ = ("id", "content", "text", "__weakref__")

    def __new__(cls, key=None, claim_id="", text=""):
        if key is not _making:
            raise TypeError("a Claim is made by bind(...) or infer(...)")
        self = object.__new__(cls)
        object.__setattr__(self, "id", claim_id)
        object.__setattr__(self, "content", text)
        object.__setattr__(self, "text", text)
        return self

    def __setattr__(self, name, value):
        raise AttributeError("a Claim can't be changed; make a new one with bind or infer")

    def __delattr__(self, name):
        raise AttributeError("a Claim can't be changed; make a new one with bind or infer")

    def __repr__(self):
        return f"Claim({self.id}: {self.text!r})"

    def __str__(self):
        return self.text

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a Claim can't be pickled")


class _Fields(string.Formatter):
    def __init__(self, refuse):
        self.refuse = refuse

    def get_value(self, key, args, kwargs):
        if isinstance(key, int) or key == "":
            raise self.refuse("bind: a placeholder needs a name: write {name} in the template and pass name=value")
        try:
            return kwargs[key]
        except KeyError:
            name = key if len(key) <= NAME_CHARS else key[:NAME_CHARS]
            raise self.refuse(f"bind: no value for placeholder {{{name}}}: pass it as {name}=...") from None


class Primitives:
    """Holds what the functions share. ask sends a request of the given kind and returns the answer."""

    def __init__(self, ask, caller_line, describe, too_long):
        self.ask, self.caller_line, self.describe, self.too_long = ask, caller_line, describe, too_long
        self.claims = {}
        self.refusal = None
        describe.is_claim = lambda value: type(value) is Claim

        def bind(*args, **values):
            """bind(template, **values) -> Claim. The template has {name} placeholders, one keyword each."""
            return self.bind(args, values)

        def infer(premises=None, conclusion=None, reasoning=None):
            """infer(premises, conclusion, reasoning) -> Claim. Premises are claims."""
            return self.infer(premises, conclusion, reasoning)

        def submit_answer(claims=None, *more):
            """submit_answer(claims). The claims that are the answer: one, or several in a list."""
            self.submit((claims, *more) if more else claims)

        self.names = {"bind": bind, "infer": infer, "submit_answer": submit_answer, "Claim": Claim}
        for value in self.names.values():
            value.__module__ = "__main__"
            if value is not Claim:
                value.__qualname__ = value.__name__

    def refuse(self, message):
        """The exception for a refusal; it is kept, so that its end of a cell can be told from another."""
        self.refusal = ValueError(message)
        return self.refusal

    def known(self, value):
        """The id of a claim, or None."""
        entry = self.claims.get(id(value))
        return entry[1] if entry is not None and entry[0] is value else None

    def _request(self, kind, body):
        try:
            answer = self.ask(kind, body)
        except self.too_long:
            raise self.refuse("the claim is too long to state; use single numbers and short strings") from None
        if answer["refused"]:
            raise self.refuse(answer["refusal"])
        return answer

    def _claim(self, answer):
        claim = Claim(_making, answer["id"], answer["text"])
        # The reference keeps the object alive, so that its identity is never reused.
        self.claims[id(claim)] = (claim, answer["id"])
        return claim

    def _ids(self, value, primitive, parameter):
        single = self.known(value)
        if single is not None:
            return [single]
        want = f"{primitive}: {parameter} must be claims that bind or infer returned, "
        short = self.describe.short_type
        if value is None or isinstance(value, (str, bytes, dict)):
            raise self.refuse(want + f"not {short(value)}")
        try:
            items = iter(value)
        except TypeError:
            raise self.refuse(want + f"not {short(value)}") from None
        ids = []
        for item in items:
            claim_id = self.known(item)
            if claim_id is None:
                raise self.refuse(want + f"but one of them is {short(item)}")
            ids.append(claim_id)
            if len(ids) > MAX_CLAIMS:
                raise self.refuse(f"{primitive}: more than {MAX_CLAIMS} claims are too many for one call")
        return ids

    def _template(self, args, values):
        if len(args) > 1:
            raise self.refuse("bind: only the template is positional; pass values as keywords, e.g. bind('{n} rows', n=n)")
        template = args[0] if args else None
        if not args:
            for key in ("template_str", "template"):
                if key in values:
                    template = values.pop(key)
                    break
            else:
                raise self.refuse("bind: no template: write bind('... {name} ...', name=value)")
        if not isinstance(template, str):
            raise self.refuse(f"bind: the template must be a string, not {self.describe.short_type(template)}")
        if len(values) > MAX_VALUES:
            raise self.refuse(f"bind: {len(values)} values are too many for one claim")
        return template

    def bind(self, args, values):
        template = self._template(args, values)
        d = self.describe
        described = []
        for name, value in values.items():
            kind = d.kind_of(value)
            described.append({"name": d.cut(name, NAME_CHARS), "kind": kind, "type": d.type_name(value),
                              "repr": d.repr_of(value, kind, REPR_CHARS)})
        fields = self._render(template, values)
        return self._claim(self._request("bind", {
            "line": self.caller_line(), "template": template, "fields": fields, "values": described}))

    def _render(self, template, values):
        """Renders every replacement field once; what a value's text holds is never a template."""
        formatter = _Fields(self.refuse)
        try:
            parts = list(formatter.parse(template))
        except ValueError as exc:
            raise self.refuse(f"bind: the template is not valid: {exc}") from None
        cut = self.describe.cut
        fields = []
        for _, name, spec, conversion in parts:
            if name is None:
                continue
            if len(fields) >= MAX_VALUES:
                raise self.refuse(f"bind: more than {MAX_VALUES} placeholders are too many for one claim")
            source = "{" + name + ("!" + conversion if conversion else "") + (":" + spec if spec else "") + "}"
            try:
                text = formatter.vformat(source, (), values)
            except Exception as exc:
                if exc is self.refusal:
                    raise
                raise self.refuse(f"bind: {cut(source, 100)} can't be formatted: {cut(str(exc), 300)}") from None
            first = name.partition(".")[0].partition("[")[0]
            fields.append({"name": cut(first, NAME_CHARS), "text": text})
        return fields

    def infer(self, premises, conclusion, reasoning):
        ids = self._ids(premises, "infer", "premises")
        for name, text in (("conclusion", conclusion), ("reasoning", reasoning)):
            if not isinstance(text, str):
                found = "" if text is None else f", not {self.describe.short_type(text)}"
                raise self.refuse(f"infer: {name} must be a string" + found)
        return self._claim(self._request("infer", {"premises": ids, "conclusion": conclusion, "reasoning": reasoning}))

    def submit(self, claims):
        self._request("submit", {"claims": self._ids(claims, "submit_answer", "claims")})


def caller_line(filename):
    """The line of the cell that is running, as far down the stack as the cell itself stands."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == filename:
            return frame.f_lineno or 0
        frame = frame.f_back
    return 0
