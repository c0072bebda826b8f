"""Jira, Confluence and GitLab: each as far as its MCP server asks, with one ticket, a few pages or one project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

NOW = "2026-01-02T03:04:05.000+0000"
PERSON: dict[str, Any] = {
    "id": 1, "name": "bot", "key": "bot", "username": "bot", "displayName": "Bot", "emailAddress": "bot@x.test",
    "active": True, "state": "active", "avatar_url": None, "web_url": "https://git.example/bot", "locked": False,
    "created_at": NOW, "bio": "", "location": "", "public_email": "", "website_url": "", "organization": "",
    "job_title": "", "email": "bot@x.test", "is_admin": False, "skype": "", "linkedin": "", "twitter": "",
    "last_sign_in_at": NOW, "confirmed_at": NOW, "last_activity_on": "2026-01-02", "theme_id": 1, "color_scheme_id": 1,
    "projects_limit": 1, "current_sign_in_at": NOW, "identities": [], "can_create_group": False, "external": False,
    "can_create_project": False, "two_factor_enabled": False, "private_profile": False, "commit_email": "bot@x.test",
}  # fmt: skip

Answer = tuple[int, Any]
Query = Mapping[str, list[str]]
Route = tuple[str, str, Callable[..., Answer]]
"""A method, a pattern of the path, and what answers: it gets the groups of the pattern, the query and the body."""

NOT_FOUND: Answer = (404, {"message": "404 Not Found", "errorMessages": ["Issue Does Not Exist"], "errors": {}})


def routed(routes: tuple[Route, ...], method: str, path: str, query: Query, body: Any) -> Answer:
    for known, pattern, answer in routes:
        found = re.fullmatch(pattern, path)
        if known == method and found:
            return answer(*map(unquote, found.groups()), query, body)
    return NOT_FOUND


class Tracker:
    """Jira with one ticket."""

    def __init__(self, key: str, description: Any) -> None:
        self.key = key
        self.description = description
        self.status = "To Do"
        self.states = {"11": "In Progress", "21": "In Review", "31": "To Do"}
        self.comments: list[dict[str, Any]] = []
        at = f"/rest/api/[23]/issue/{key}"
        self.routes: tuple[Route, ...] = (
            ("GET", "/rest/api/2/myself", lambda *_: (200, PERSON)),
            ("GET", "/rest/api/2/field", lambda *_: (200, [])),
            ("GET", "/rest/api/2/search", self._search),
            ("POST", "/rest/api/3/search/jql", self._search),
            ("GET", at, lambda *_: (200, self.issue())),
            ("PUT", at, self._update),
            ("GET", f"{at}/comment", lambda *_: (200, self._listed())),
            ("POST", f"{at}/comment", self._comment),
            ("GET", f"{at}/transitions", self._transitions),
            ("POST", f"{at}/transitions", self._move),
        )

    def issue(self) -> dict[str, Any]:
        status = {"id": "1", "name": self.status, "statusCategory": {"id": 2, "key": "new", "name": "To Do"}}
        fields = {
            "summary": "Orders", "description": self.description, "created": NOW, "updated": NOW, "status": status,
            "issuetype": {"id": "1", "name": "Story", "subtask": False}, "reporter": PERSON, "assignee": PERSON,
            "project": {"id": "1", "key": self.key.partition("-")[0], "name": "Shop"}, "labels": [],
            "priority": {"id": "3", "name": "Medium"}, "comment": self._listed(),
        }  # fmt: skip
        return {"id": "10001", "key": self.key, "self": "https://jira.example/rest/api/2/issue/10001", "fields": fields}

    def texts(self) -> list[str]:
        """Return what the comments say."""
        return [str(comment["body"]) for comment in self.comments]

    def _listed(self) -> dict[str, Any]:
        return {"comments": self.comments, "total": len(self.comments), "maxResults": 50, "startAt": 0}

    def _search(self, _query: Query, _body: Any) -> Answer:
        return 200, {"issues": [self.issue()], "total": 1, "startAt": 0, "maxResults": 50, "isLast": True}

    def _update(self, _query: Query, body: Any) -> Answer:
        self.description = body["fields"]["description"]
        return 204, None

    def _comment(self, _query: Query, body: Any) -> Answer:
        made = {"id": str(1 + len(self.comments)), "author": PERSON, "created": NOW, "updated": NOW}
        self.comments.append({**made, "body": body["body"]})
        return 201, self.comments[-1]

    def _transitions(self, _query: Query, _body: Any) -> Answer:
        return 200, {
            "transitions": [
                {"id": number, "name": state, "to": {"name": state, "id": number}}
                for number, state in self.states.items()
            ]
        }

    def _move(self, _query: Query, body: Any) -> Answer:
        self.status = self.states[body["transition"]["id"]]
        return 204, None


class Pages:
    """Confluence with a few pages: their titles and their HTML, by id."""

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        self.pages = dict(pages)
        self.routes: tuple[Route, ...] = (
            ("GET", "(?:/wiki)?/rest/api/search", self._search),
            ("GET", "(?:/wiki)?/rest/api/content/([^/]+)", self._page),
            (
                "GET",
                "(?:/wiki)?/rest/api/content/([^/]+)/.*",
                lambda *_: (200, {"results": [], "size": 0, "_links": {}}),
            ),
        )

    def _search(self, query: Query, _body: Any) -> Answer:
        words = re.findall(r'~ "([^"]*)"', query["cql"][0])
        found = [number for number, (title, _) in self.pages.items() if any(word in title for word in words)]
        results = [
            {"content": self._shown(number), "title": self.pages[number][0], "excerpt": "", "url": f"/x/{number}",
             "lastModified": NOW, "entityType": "content"} for number in found
        ]  # fmt: skip
        return 200, {"results": results, "size": len(found), "totalSize": len(found), "start": 0, "limit": 10}

    def _page(self, number: str, _query: Query, _body: Any) -> Answer:
        if number not in self.pages:
            return 404, {"statusCode": 404, "message": f"No content found with id: ContentId{{id={number}}}"}
        return 200, self._shown(number)

    def _shown(self, number: str) -> dict[str, Any]:
        title, text = self.pages[number]
        return {
            "id": number, "type": "page", "status": "current", "title": title,
            "space": {"key": "DOC", "name": "Docs", "id": 1, "type": "global"},
            "version": {"number": 1, "when": NOW, "by": PERSON}, "history": {"createdDate": NOW, "createdBy": PERSON},
            "body": {"storage": {"value": text, "representation": "storage"}, "view": {"value": text}},
            "_links": {"webui": f"/x/{number}", "base": "https://docs.example"},
        }  # fmt: skip


class Code:
    """GitLab with one project, whose branches are mappings from paths to contents."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.trees: dict[str, dict[str, str]] = {"main": {"README.md": "# Orders\n"}}
        self.messages: dict[str, list[str]] = {"main": ["First commit"]}
        self.requests: list[dict[str, Any]] = []
        self.notes: list[dict[str, Any]] = []
        self.approvals: list[str] = []
        self.can_approve = True
        at = "/api/v4/projects/(?:7|" + re.escape(project.replace("/", "%2F")) + ")"
        branches, request = f"{at}/repository/branches", f"{at}/merge_requests/([0-9]+)"
        self.routes: tuple[Route, ...] = (
            ("GET", "/api/v4/user", lambda *_: (200, PERSON)),
            ("GET", at, lambda *_: (200, self._project())),
            ("POST", branches, self._make_branch),
            ("GET", f"{branches}/([^/]+)", self._get_branch),
            ("GET", f"{at}/repository/commits", self._commits),
            ("POST", f"{at}/repository/commits", self._commit),
            ("GET", f"{at}/repository/files/([^/]+)", self._file),
            ("GET", f"{at}/repository/tree", self._tree),
            ("GET", f"{at}/merge_requests", self._requests),
            ("POST", f"{at}/merge_requests", self._make_request),
            ("GET", request, self._get_request),
            ("GET", f"{request}/diffs", self._diffs),
            ("GET", f"{request}/notes", self._listed_notes),
            ("POST", f"{request}/notes", self._make_note),
            ("POST", f"{request}/discussions", self._make_thread),
            ("GET", f"{request}/approval_state", lambda *_: (200, {"approval_rules_overwritten": False, "rules": []})),
            ("GET", f"{request}/approvals", lambda *_: (200, self._approved())),
            ("POST", f"{request}/approve", self._approve),
        )

    def _project(self) -> dict[str, Any]:
        group = {"id": 1, "name": "g", "path": "g", "kind": "group", "full_path": "g"}
        return {
            "id": 7, "name": "p", "path": "p", "path_with_namespace": self.project, "default_branch": "main",
            "description": None, "visibility": "private", "web_url": "https://git.example/p", "namespace": group,
        }  # fmt: skip

    def _make_branch(self, _query: Query, body: Any) -> Answer:
        if body["branch"] in self.trees:
            return 400, {"message": "Branch already exists"}
        self.trees[body["branch"]] = dict(self.trees[body["ref"]])
        self.messages[body["branch"]] = list(self.messages[body["ref"]])
        return 201, self._branch(body["branch"])

    def _get_branch(self, name: str, _query: Query, _body: Any) -> Answer:
        return (200, self._branch(name)) if name in self.trees else (404, {"message": "404 Branch Not Found"})

    def _commits(self, query: Query, _body: Any) -> Answer:
        messages = self.messages[query["ref_name"][0]]
        return 200, [_commit(f"{at + 1:040x}", text) for at, text in reversed(list(enumerate(messages)))]

    def _commit(self, _query: Query, body: Any) -> Answer:
        tree = dict(self.trees[body["branch"]])
        for action in body["actions"]:
            known = action["file_path"] in tree
            if known != (action["action"] == "update"):
                return 400, {"message": f"A file with this name {'already exists' if known else 'is not there'}"}
            tree[action["file_path"]] = action["content"]
        self.trees[body["branch"]] = tree
        self.messages[body["branch"]].append(body["commit_message"])
        return 201, self._branch(body["branch"])["commit"]

    def _file(self, path: str, query: Query, _body: Any) -> Answer:
        tree = self.trees[query["ref"][0]]
        if path not in tree:
            return 404, {"message": "404 File Not Found"}
        return 200, {
            "file_name": path, "file_path": path, "size": len(tree[path]), "encoding": "text", "content": tree[path],
            "content_sha256": "0" * 64, "ref": "x", "blob_id": "0" * 40, "commit_id": "0" * 40,
            "last_commit_id": "0" * 40, "execute_filemode": False,
        }  # fmt: skip

    def _tree(self, query: Query, _body: Any) -> Answer:
        names = sorted(self.trees[query["ref"][0]])
        return 200, [{"id": "0" * 40, "name": name, "type": "blob", "path": name, "mode": "100644"} for name in names]

    def _branch(self, name: str) -> dict[str, Any]:
        commit = _commit(f"{len(self.messages[name]):040x}", self.messages[name][-1])
        return {
            "name": name, "commit": commit, "merged": False, "protected": name == "main", "default": name == "main",
            "developers_can_push": True, "developers_can_merge": True, "can_push": True, "web_url": "https://x.test",
        }  # fmt: skip

    def _requests(self, query: Query, _body: Any) -> Answer:
        numbers = range(len(self.requests), 0, -1)
        branch = query["source_branch"][0]
        return 200, [self._request(each) for each in numbers if self.requests[each - 1]["source_branch"] == branch]

    def _get_request(self, number: str, _query: Query, _body: Any) -> Answer:
        return (200, self._request(int(number))) if int(number) <= len(self.requests) else NOT_FOUND

    def _make_request(self, _query: Query, body: Any) -> Answer:
        if any(known["source_branch"] == body["source_branch"] for known in self.requests):
            return 409, {"message": ["Another open merge request already exists for this source branch: !1"]}
        self.requests.append({**body, "state": "opened"})
        return 201, self._request(len(self.requests))

    def _request(self, number: int) -> dict[str, Any]:
        known = self.requests[number - 1]
        head = self._branch(known["source_branch"])["commit"]["id"]
        refs = {"base_sha": "1".zfill(40), "start_sha": "1".zfill(40), "head_sha": head}
        return {
            "id": 900 + number, "iid": number, "project_id": 7, "title": known["title"], "state": known["state"],
            "description": known.get("description"), "draft": False, "source_branch": known["source_branch"],
            "target_branch": known["target_branch"], "author": PERSON, "assignees": [], "reviewers": [], "labels": [],
            "created_at": NOW, "updated_at": NOW, "merged_at": None, "closed_at": None, "merge_commit_sha": None,
            "merge_status": "can_be_merged", "detailed_merge_status": "mergeable", "sha": head, "diff_refs": refs,
            "web_url": f"https://git.example/{self.project}/-/merge_requests/{number}", "changes_count": "1",
            "source_project_id": 7, "target_project_id": 7, "user_notes_count": 0, "has_conflicts": False,
        }  # fmt: skip

    def _approved(self) -> dict[str, Any]:
        by = [{"user": PERSON, "approved_at": NOW}] if self.approvals else []
        return {"approved": bool(by), "user_has_approved": bool(by), "user_can_approve": not by, "approved_by": by}

    def _approve(self, number: str, _query: Query, body: Any) -> Answer:
        """Approve, as GitLab does: who may not, or has done it already, is unauthorized."""
        if not self.can_approve or self.approvals:
            return 401, {"message": "401 Unauthorized"}
        if body.get("sha") != self._request(int(number))["sha"]:
            return 409, {"message": "SHA does not match HEAD of source branch"}
        self.approvals.append(body["sha"])
        return 201, self._approved()

    def _diffs(self, number: str, query: Query, _body: Any) -> Answer:
        known = self.requests[int(number) - 1]
        old, new = self.trees[known["target_branch"]], self.trees[known["source_branch"]]
        changed = [path for path in new if new[path] != old.get(path)]
        return 200, [
            {"old_path": path, "new_path": path, "a_mode": "0" if path not in old else "100644", "b_mode": "100644",
             "new_file": path not in old, "renamed_file": False, "deleted_file": False, "generated_file": False,
             "collapsed": False, "too_large": False, "diff": _hunk(old.get(path, ""), new[path])}
            for path in changed
        ] if query["page"] == ["1"] else []  # fmt: skip

    def _listed_notes(self, _number: str, query: Query, _body: Any) -> Answer:
        return 200, self.notes if query["page"] == ["1"] else []

    def _make_note(self, _number: str, _query: Query, body: Any) -> Answer:
        self.notes.append(_note(body["body"], len(self.notes) + 1))
        return 201, self.notes[-1]

    def _make_thread(self, _number: str, _query: Query, body: Any) -> Answer:
        if body["position"]["new_path"] == "unknown.py":
            return 400, {"message": '400 Bad request - Note {:line_code=>["can\'t be blank"]}'}
        self.notes.append(
            {**_note(body["body"], len(self.notes) + 1), "type": "DiffNote", "position": body["position"]}
        )
        return 201, {"id": f"d{len(self.notes)}", "individual_note": False, "notes": [self.notes[-1]]}


def _commit(sha: str, message: str) -> dict[str, Any]:
    return {
        "id": sha, "short_id": sha[:8], "title": message.partition("\n")[0], "message": message, "parent_ids": [],
        "author_name": "bot", "author_email": "bot@x.test", "authored_date": NOW, "committer_name": "bot",
        "committer_email": "bot@x.test", "committed_date": NOW, "created_at": NOW, "web_url": "https://x.test",
    }  # fmt: skip


def _note(body: str, number: int) -> dict[str, Any]:
    return {
        "id": number, "type": None, "body": body, "author": PERSON, "created_at": NOW, "updated_at": NOW,
        "system": False, "noteable_id": 901, "noteable_type": "MergeRequest", "noteable_iid": 1, "project_id": 7,
        "resolvable": False, "resolved": False, "confidential": False, "internal": False, "attachment": None,
        "imported": False, "imported_from": "none", "commands_changes": {},
    }  # fmt: skip


def _hunk(old: str, new: str) -> str:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    if not before and not after:
        return ""
    head = f"@@ -{1 if before else 0},{len(before)} +{1 if after else 0},{len(after)} @@\n"
    return head + "".join([*(f"-{line}" for line in before), *(f"+{line}" for line in after)])
