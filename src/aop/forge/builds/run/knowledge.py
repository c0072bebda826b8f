"""Knowledge of a build: what its runner reads from the record and from trees."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from aop.core.errors import BuildNotBegun, ForgeSupportMissing
from aop.forge.broker.fetches import fetches_of_build
from aop.forge.broker.summaries import brief_of
from aop.forge.builds.context.compaction import Recollection
from aop.forge.builds.context.crew_messages import PhaseView
from aop.forge.builds.context.messages import advancement
from aop.forge.builds.documents import BuildCycle
from aop.forge.builds.people.clarifications import budget_text, is_waiting
from aop.forge.builds.people.notes import note_digest, note_of, notes_section
from aop.forge.builds.run.crew.crew_events import phase_diff
from aop.forge.contracts.types import ContractType
from aop.forge.projects.batches import contract_in, pinned_batch
from aop.forge.projects.documents import ForgeBuild, ForgeProject, ScratchNote
from aop.kernel.gateway.calls import Kernel, feature_named
from aop.kernel.record.documents.questions import Question
from aop.kernel.record.port import Snapshot

MOST_FILES = 200
TOLD_NOTES = ("decisions", "known_issues")
"""The notes of a coder that its auditor is shown."""
CHARS_PER_TOKEN = 3
"""Where nothing counts tokens, a conversation is taken for longer than it is."""


class Opening(Struct, frozen=True, kw_only=True):
    """The parts of the first message of a build."""

    name: str
    description: str
    paths: tuple[str, ...]
    notes: str
    questions: str


class BuildKnowledge:
    """Reads one build as it is now."""

    def __init__(self, kernel: Kernel, build_id: str) -> None:
        self._kernel = kernel
        self.build_id = build_id

    def cycle(self) -> BuildCycle:
        """Return the cycle. Raises: BuildNotBegun."""
        with self._kernel.record.read() as view:
            return self._cycle(view)

    def has_news(self, cycle: BuildCycle) -> bool:
        """Tell whether people said something that the model was not told yet."""
        with self._kernel.record.read() as view:
            note = note_of(view, cycle.project_id, cycle.owner)
        return bool(cycle.interjections) or note_digest(note) != cycle.note_shown

    def branch_has_moved(self, cycle: BuildCycle) -> bool:
        """Tell whether the branch is not as AOP left it."""
        return self._kernel.git.branches.head(cycle.branch) != cycle.head

    def is_asked(self) -> bool:
        """Tell whether the build waits for a person's answer."""
        with self._kernel.record.read() as view:
            return is_waiting(view, self.build_id, self._kernel.clock.now())

    def opening(self) -> Opening:
        """Return what the first message says, as the build was when it began."""
        with self._kernel.record.read() as view:
            cycle = self._cycle(view)
            project = view.get(ForgeProject, cycle.project_id)
            blueprint = _pinned(view, cycle, ContractType.BLUEPRINT)
            note = note_of(view, cycle.project_id, cycle.owner)
        baseline = self._kernel.git.objects.tree_of(cycle.baseline_sha)
        paths = tuple(entry.path for entry in self._kernel.git.objects.entries(baseline))
        name = cycle.project_id if project is None else project.name
        return Opening(
            name=name,
            description=brief_of(blueprint),
            paths=paths,
            notes=notes_section(note),
            questions=self._questions(cycle),
        )

    def advancement(self, fence: str) -> str:
        """Return the message that begins the current phase."""
        cycle = self.cycle()
        objects, done = self._kernel.git.objects, cycle.sign_offs[-1]
        before = cycle.sign_offs[-2].tree if len(cycle.sign_offs) > 1 else objects.tree_of(cycle.baseline_sha)
        paths = [entry.path for entry in objects.entries(done.tree)]
        changes, questions = objects.changes(before, done.tree), self._questions(cycle)
        return advancement(cycle.current.number, changes, paths, fence=fence, questions=questions)

    def recollection(self) -> Recollection:
        """Return what a model must not forget when its conversation is compacted."""
        with self._kernel.record.read() as view:
            cycle = self._cycle(view)
            state = feature_named(view, cycle.build_id)
            read = [_part(entry.event.payload) for entry in fetches_of_build(view, cycle.build_id)]
            pad = tuple(note.name for note in view.all(ScratchNote, f"{cycle.build_id}/"))
        objects = self._kernel.git.objects
        files = [change.path for change in objects.changes(objects.tree_of(cycle.baseline_sha), state.tree)]
        number = cycle.current.number
        return Recollection(
            phase=number,
            phase_name=cycle.phases[number] if number < len(cycle.phases) else "",
            progress=cycle.current,
            signed_off=tuple(each.phase for each in cycle.sign_offs),
            contracts=tuple(dict.fromkeys(read)),
            files=tuple(files[:MOST_FILES]),
            pad=pad,
        )

    def phase_view(self) -> PhaseView:
        """Return the current phase as its team sees it."""
        opening = self.opening()
        with self._kernel.record.read() as view:
            cycle = self._cycle(view)
            tree = feature_named(view, cycle.build_id).tree
            pad = {
                note.name: note.value for note in view.all(ScratchNote, f"{cycle.build_id}/") if note.name in TOLD_NOTES
            }
        objects, number = self._kernel.git.objects, cycle.current.number
        start = cycle.current.start_tree or objects.tree_of(cycle.baseline_sha)
        return PhaseView(
            build_id=cycle.build_id,
            project=opening.name,
            description=opening.description,
            notes=opening.notes,
            questions=opening.questions,
            phase_name=cycle.phases[number] if number < len(cycle.phases) else "",
            progress=cycle.current,
            paths=tuple(entry.path for entry in objects.entries(tree)),
            changes=objects.changes(start, tree),
            diff=phase_diff(self._kernel, cycle, tree),
            pad=pad,
        )

    def work_so_far(self) -> str:
        """Return the files, the plan and the refusals of the current phase as one text, to see whether they change."""
        with self._kernel.record.read() as view:
            cycle = self._cycle(view)
            tree = feature_named(view, cycle.build_id).tree
        current = cycle.current
        return f"{tree} {[task.text for task in current.plan]} {current.done} {sorted(current.attempts.items())}"

    def stop_is_answered(self, cycle: BuildCycle) -> bool:
        """Tell whether a person answered the STOP of a build."""
        if cycle.stop is None:
            return False
        with self._kernel.record.read() as view:
            question = view.get(Question, cycle.stop.question_id)
        return question is not None and question.answer is not None

    def tokens(self, text: str) -> int:
        """Return the tokens of a text, or an estimate that is rather too large."""
        count: Callable[[str], int] | None = None if self._kernel.tokenizer is None else self._kernel.tokenizer.count
        try:
            return len(text) // CHARS_PER_TOKEN if count is None else count(text)
        except ForgeSupportMissing:
            return len(text) // CHARS_PER_TOKEN

    def _questions(self, cycle: BuildCycle) -> str:
        return budget_text(cycle, self._kernel.config().policy.forge.build)

    def _cycle(self, view: Snapshot) -> BuildCycle:
        cycle = view.get(BuildCycle, self.build_id)
        if cycle is None:
            raise BuildNotBegun(f"The build `{self.build_id}` has not begun.", build_id=self.build_id)
        return cycle


def _pinned(view: Snapshot, cycle: BuildCycle, contract_type: ContractType) -> str:
    build = view.get(ForgeBuild, cycle.build_id)
    return "" if build is None else contract_in(view, pinned_batch(view, build), contract_type).content


def _part(payload: object) -> str:
    if not isinstance(payload, dict):
        return ""
    section = payload.get("section")
    return f"{payload['contract_type']} ({section})" if section else str(payload["contract_type"])
