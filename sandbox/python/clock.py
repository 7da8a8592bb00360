"""A wall clock that stands still but for time.sleep, so that a cell log replays to the same text.

Invariant: every way to ask for the date or for a duration to print goes through here. time.monotonic
stays real: event loops and locks wait by it.
"""
import datetime
import gc
import sys
import time

EPOCH = datetime.datetime(1970, 1, 1)


class Clock:
    def __init__(self, seconds):
        self.start = self.micros = round(seconds * 1_000_000)

    def install(self):
        real_sleep, real_strftime, real_asctime = time.sleep, time.strftime, time.asctime

        def sleep(seconds):
            real_sleep(seconds)
            self.micros += round(seconds * 1_000_000)

        def at(real):
            return lambda seconds=None: real(self.micros / 1e6 if seconds is None else seconds)

        time.sleep = sleep
        time.time = lambda: self.micros / 1e6
        time.time_ns = lambda: self.micros * 1000
        for name in ("perf_counter", "process_time", "thread_time"):
            setattr(time, name, lambda: (self.micros - self.start) / 1e6)
            setattr(time, name + "_ns", lambda: (self.micros - self.start) * 1000)
        for name in ("localtime", "gmtime", "ctime"):
            setattr(time, name, at(getattr(time, name)))
        time.strftime = lambda form, when=None: real_strftime(form, time.localtime() if when is None else when)
        time.asctime = lambda when=None: real_asctime(time.localtime() if when is None else when)
        self._dates()

    def moment(self, zone=None):
        passed = datetime.timedelta(microseconds=self.micros)
        return EPOCH + passed if zone is None else (EPOCH.replace(tzinfo=datetime.timezone.utc) + passed).astimezone(zone)

    def _dates(self):
        """The classes of datetime are C types: their methods are replaced in place, so that a library
        that holds the class already asks here too."""
        def as_class(cls, value):
            return value if cls is datetime.datetime else cls.fromisoformat(value.isoformat())

        def today(cls):
            now = self.moment()
            return as_class(cls, now) if issubclass(cls, datetime.datetime) else cls(now.year, now.month, now.day)

        methods = gc.get_referents(datetime.datetime.__dict__)[0]
        methods["now"] = classmethod(lambda cls, tz=None: as_class(cls, self.moment(tz)))
        methods["utcnow"] = classmethod(lambda cls: as_class(cls, self.moment()))
        gc.get_referents(datetime.date.__dict__)[0]["today"] = classmethod(today)
        # Lookups of the old methods may be cached.
        (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()
