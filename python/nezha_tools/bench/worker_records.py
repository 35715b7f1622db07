"""How the bench's processes hand records to each other: specs as files, results as lines of output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Sequence, Type, TypeVar

SpecType = TypeVar("SpecType", bound="Spec")
ResultType = TypeVar("ResultType", bound="Result")


@dataclass
class Spec:
    """A dataclass that goes to the ranks as a file."""

    def save(self, path: Path) -> None:
        """Writes the spec as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls: Type[SpecType], path: Path) -> SpecType:
        """Reads what `save` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


@dataclass
class Result:
    """A dataclass that rank 0 hands over as a line that begins with its PREFIX."""

    PREFIX: ClassVar[str]

    @classmethod
    def from_dict(cls: Type[ResultType], data: Dict[str, Any]) -> ResultType:
        """The inverse of dataclasses.asdict."""
        return cls(**data)

    @classmethod
    def parse(cls: Type[ResultType], lines: Sequence[bytes]) -> List[ResultType]:
        """The results among the lines of rank 0's output."""
        prefix = cls.PREFIX.encode()
        return [cls.from_dict(json.loads(line[len(prefix):]))
                for line in lines if line.startswith(prefix)]

    def emit(self) -> None:
        """Hands the result to the process that launched this one."""
        print(self.PREFIX + json.dumps(asdict(self)), flush=True)
