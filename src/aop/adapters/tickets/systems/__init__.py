"""Remote systems: Jira, Confluence, GitLab and the local provider."""
