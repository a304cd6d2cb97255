"""What rules look at: a session with the thresholds, and what the rules before have answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.analysis.expert.session_time import SessionTime

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tui.analysis.expert.limits import Limits
    from tui.analysis.expert.model import Verdict
    from tui.model.profile import Profile


class Case(SessionTime):
    """One session, or for rules that compare sessions all of them.

    Args:
        profile: The rows of the session alone.
        session: Its number; None for all sessions.
        limits: The thresholds.
        gpu: The name of the GPU, as the user gives it.
        whole: Everything that was read.
    """

    def __init__(
        self,
        profile: Profile,
        session: int | None,
        limits: Limits,
        *,
        gpu: str | None = None,
        whole: Profile | None = None,
    ) -> None:
        super().__init__(profile, session, gpu=gpu)
        self.limits = limits
        self.whole = whole or profile
        self.verdicts: dict[str, Verdict] = {}
        """What the rules before this one have answered."""
        self.judging: dict[str, Future[Verdict]] = {}
        """Those that another thread may still be at."""

    def limit(self, rule: str, name: str) -> float:
        """A threshold."""
        return self.limits(rule, name)

    def found(self, rule: str) -> bool:
        """Whether a rule before this one was found."""
        from tui.analysis.expert.model import Found

        return isinstance(self._verdict(rule), Found)

    def untold(self, *rules: str) -> str:
        """Why one of the rules before this one could not be told; empty where all were."""
        from tui.analysis.expert.model import CannotTell

        verdicts = map(self._verdict, rules)
        return next((verdict.reason for verdict in verdicts if isinstance(verdict, CannotTell)), "")

    def _verdict(self, rule: str) -> Verdict | None:
        return self.judging[rule].result() if rule in self.judging else self.verdicts.get(rule)
