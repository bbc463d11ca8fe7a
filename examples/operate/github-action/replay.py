"""Replays recorded decisions with a policy, and writes what differs to the summary of the job and to a comment on the pull request, one for all runs. Ends with the exit status of the replay."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

MARK = "<!-- backstop policy replay -->"


def request(method: str, path: str, body: dict | None = None) -> list | dict:
    """Makes one request to GitHub."""
    made = urllib.request.Request(
        os.environ["GITHUB_API_URL"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(made, timeout=30) as answer:
        return json.load(answer)


def earlier(comments: str) -> int | None:
    """The comment of an earlier run."""
    for page in range(1, 11):
        found = request("GET", f"{comments}?per_page=100&page={page}")
        for comment in found:
            # Others may quote the mark.
            if comment["body"].startswith(MARK) and comment["user"]["type"] == "Bot":
                return comment["id"]
        if len(found) < 100:
            break
    return None


def publish(text: str, pull_request: str) -> None:
    """Writes the comment, in place of an earlier one."""
    issues = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    comments = f"{issues}/{int(pull_request)}/comments"
    comment = earlier(comments)
    if comment is None:
        request("POST", comments, {"body": text})
    else:
        request("PATCH", f"{issues}/comments/{comment}", {"body": text})


def main() -> int:
    """Replays, and says what differs."""
    command = ["backstop", "policy", "replay", os.environ["RECORDS"]]
    command += ["--policy", os.environ["POLICY"], "--allow", os.environ["ALLOW"], "--format", "github"]
    if os.environ["AGAINST"]:
        command += ["--against", os.environ["AGAINST"]]
    replayed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if replayed.stdout:
        with open(os.environ["GITHUB_STEP_SUMMARY"], "a", encoding="utf-8") as summary:
            summary.write(replayed.stdout)
        if os.environ["PULL_REQUEST"]:
            try:
                publish(replayed.stdout, os.environ["PULL_REQUEST"])
            except urllib.error.URLError as error:
                # The token of a pull request from a fork may only read.
                print(f"::notice::no comment was written, see the summary: {error}")
    return replayed.returncode


if __name__ == "__main__":
    sys.exit(main())
