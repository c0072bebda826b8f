"""Redaction rules: the patterns of secrets, as a literal table for RE2.

A pattern without a group is the secret, and begins where a word begins. A pattern with a group is taken as it stands,
and the group is the secret. One of the rule's keywords stands, in any case, in every text that the pattern matches.
"""

from __future__ import annotations

from msgspec import Struct


class Rule(Struct, frozen=True):
    """One kind of secret."""

    name: str
    keywords: tuple[str, ...]
    pattern: str
    unquoted: bool = False
    """The value stands bare, so it must not read as a word of code or prose."""


_QUOTES = r"""["'`\\]{0,3}"""
_SAYS = _QUOTES + r"\]?[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}"
_IS = _SAYS + _QUOTES
"""Between a name and its value, in code, YAML, JSON, and JSON inside JSON."""
_HEX_END = r"(?:[^0-9A-Za-z]|$)"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KEY_BREAK = r"""(?:[\s"'`,+>|#*]|\\[nrt\\])"""
"""What may stand between the lines of a key: a line break, its escaped spelling, quotes, the margin of a diff."""

_LINE_PREFIX = r"\r?\n(?:[^\r\n]{0,80}[^A-Za-z0-9+/=\r\n])?"
_LINE_REST = r"[^A-Za-z0-9+/\r\n]{0,16}"
"""What a log, a listing or a table puts before and after a line of a key: a time, a number, a name."""
_KEY_END = r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"

RULES: tuple[Rule, ...] = (
    Rule(
        "private-key",
        ("private key",),
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_KEY_BREAK}+[A-Za-z-]+: [^\r\n\\]+)*"
        rf"(?:{_KEY_BREAK}+[A-Za-z0-9+/]{{32,}}={{0,2}})+"
        rf"(?:{_KEY_BREAK}+[A-Za-z0-9+/=]+){{0,2}}"
        rf"(?:{_KEY_BREAK}*{_KEY_END})?)",
    ),
    Rule(
        "prefixed-private-key",
        ("private key",),
        rf"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----{_LINE_REST}"
        rf"(?:{_LINE_PREFIX}[A-Za-z0-9+/]{{32,}}={{0,2}}{_LINE_REST})+"
        rf"(?:(?:{_LINE_PREFIX}[A-Za-z0-9+/]{{1,76}}={{0,2}}{_LINE_REST}){{0,2}}{_LINE_PREFIX}{_KEY_END})?)",
    ),
    Rule("putty-private-key", ("private-lines",), r"(Private-Lines: \d+(?:\s+[A-Za-z0-9+/=]{40,})+)"),
    Rule("age-key", ("age-secret-key-1",), r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
    Rule("jwt", ("eyj",), r"eyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{20,}"),
    Rule("forge-key", ("fg_",), r"fg_[A-Za-z0-9_-]{43}"),
    Rule("approval-token", ("aop1.eyj",), r"aop1\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{43}"),
    # Clouds
    Rule("aws-access-key-id", ("akia", "asia", "abia", "acca"), r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}\b"),
    Rule(
        "aws-secret-access-key",
        ("aws", "secret_access_key", "secretaccesskey"),
        r"(?i)(?:aws[\w.-]{0,20}secret|secret_?access)[\w.-]{0,20}" + _IS + r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
    ),
    Rule(
        "aws-session-token",
        ("session_token", "sessiontoken"),
        r"(?i)(?:aws_?)?session_?token" + _IS + r"([A-Za-z0-9/+]{100,}={0,2})",
    ),
    Rule("aws-bedrock-key", ("absk",), r"ABSK[A-Za-z0-9+/]{109,269}={0,2}"),
    Rule("azure-storage-key", ("accountkey",), r"(?i)AccountKey" + _IS + r"([A-Za-z0-9+/]{86}==)"),
    Rule("azure-shared-access-key", ("sharedaccesskey",), r"(?i)SharedAccessKey" + _IS + r"([A-Za-z0-9+/]{43}=)"),
    Rule("azure-client-secret", ("q~",), r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    Rule("azure-devops-token", ("azdo",), r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),
    Rule("azure-sas-signature", ("sig=",), r"[?&]s[vp]=[^\s\"'#]*&sig=([A-Za-z0-9%/+]{43,60}(?:%3D|=))"),
    Rule("google-api-key", ("aiza",), r"AIza[A-Za-z0-9_-]{35}"),
    Rule("google-oauth-secret", ("gocspx-",), r"GOCSPX-[A-Za-z0-9_-]{28}"),
    Rule("google-access-token", ("ya29.",), r"ya29\.[A-Za-z0-9_-]{40,}"),
    Rule("google-refresh-token", ("1//0",), r"1//0[A-Za-z0-9_-]{40,}"),
    Rule("alibaba-access-key", ("ltai",), r"LTAI[A-Za-z0-9]{20}\b"),
    Rule("tencent-secret-id", ("akid",), r"AKID[A-Za-z0-9]{32}\b"),
    Rule("digitalocean-token", ("doo_v1_", "dop_v1_", "dor_v1_"), r"do[opr]_v1_[a-f0-9]{64}"),
    Rule("heroku-key", ("hrku-",), r"HRKU-[A-Za-z0-9_-]{36,64}"),
    Rule("fly-token", ("fo1_", "fm1r_", "fm2_"), r"(?:fo1_[A-Za-z0-9_-]{43}|fm(?:1r|2)_[A-Za-z0-9+/]{80,}={0,3})"),
    Rule("netlify-token", ("nfp_",), r"nfp_[A-Za-z0-9]{36}"),
    Rule("cloudflare-origin-key", ("v1.0-",), r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    Rule(
        "cloudflare-token",
        ("cloudflare", "cf_api"),
        r"(?i)(?:cloudflare|cf_api)[\w.-]{0,20}(?:token|key)" + _IS + r"([A-Za-z0-9_-]{40}|[a-f0-9]{37})" + _HEX_END,
    ),
    Rule("databricks-token", ("dapi",), r"dapi[a-f0-9]{32}(?:-[0-9])?\b"),
    Rule("planetscale-secret", ("pscale_",), r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,64}"),
    Rule("supabase-key", ("sbp_", "sb_secret_"), r"(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{31,})"),
    Rule("openshift-token", ("sha256~",), r"sha256~[A-Za-z0-9_-]{43}"),
    # Where code lives, and packages
    Rule("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,251}"),
    Rule("github-fine-grained-token", ("github_pat_",), r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    Rule(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glcbt-", "glffct-"),
        r"gl(?:pat|dt|rt|ptt|ft|imt|agent|oas|soat|cbt|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    Rule("gitlab-runner-token", ("gr1348941",), r"GR1348941[A-Za-z0-9_-]{20}"),
    Rule("bitbucket-app-password", ("atbb",), r"ATBB[A-Za-z0-9]{32}\b"),
    Rule("atlassian-token", ("atatt3", "atctt3"), r"AT[AC]TT3[A-Za-z0-9_=-]{100,}"),
    Rule("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{36}\b"),
    Rule("pypi-token", ("pypi-age",), r"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,}"),
    Rule("rubygems-key", ("rubygems_",), r"rubygems_[a-f0-9]{48}"),
    Rule("crates-token", ("cio",), r"cio[A-Za-z0-9]{32}\b"),
    Rule("nuget-key", ("oy2",), r"oy2[a-z0-9]{43}\b"),
    Rule("docker-token", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[A-Za-z0-9_-]{27,32}"),
    Rule("artifactory-key", ("akcp", "cmvmdgtu"), r"(?:AKCp[A-Za-z0-9]{69}|cmVmdGtu[A-Za-z0-9]{56})\b"),
    Rule("circleci-token", ("ccipat_",), r"CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    Rule("buildkite-token", ("bkua_",), r"bkua_[a-f0-9]{40}"),
    Rule("sonar-token", ("sqp_", "squ_", "sqa_"), r"sq[pua]_[a-f0-9]{40}"),
    Rule("terraform-token", (".atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    Rule("pulumi-token", ("pul-",), r"pul-[a-f0-9]{40}\b"),
    Rule("vault-token", ("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    Rule("doppler-token", ("dp.",), r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,80}"),
    Rule("onepassword-token", ("ops_eyj",), r"ops_eyJ[A-Za-z0-9+/]{200,}={0,3}"),
    Rule("infracost-key", ("ico-",), r"ico-[A-Za-z0-9]{32}\b"),
    Rule("prefect-key", ("pnu_", "pnb_"), r"pn[ub]_[A-Za-z0-9]{36}\b"),
    # Models
    Rule("openai-key", ("t3blbkfj",), r"sk-[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}"),
    Rule("anthropic-key", ("sk-ant-",), r"sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{80,}"),
    Rule("openrouter-key", ("sk-or-v1-",), r"sk-or-v1-[a-f0-9]{64}"),
    Rule("huggingface-token", ("hf_", "api_org_"), r"(?:hf|api_org)_[A-Za-z0-9]{34,40}\b"),
    Rule("replicate-token", ("r8_",), r"r8_[A-Za-z0-9]{37}\b"),
    Rule("groq-key", ("gsk_",), r"gsk_[A-Za-z0-9]{52}\b"),
    Rule("perplexity-key", ("pplx-",), r"pplx-[A-Za-z0-9]{48}\b"),
    Rule("xai-key", ("xai-",), r"xai-[A-Za-z0-9]{70,}"),
    Rule("langsmith-key", ("lsv2_",), r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    # Messages
    Rule("slack-token", ("xox",), r"xox(?:[a-z](?:\.xox[a-z])?-[0-9]+-[A-Za-z0-9-]{20,}|d-[A-Za-z0-9%/+]{40,})"),
    Rule("slack-app-token", ("xapp-",), r"xapp-[0-9]-[A-Z0-9]{9,12}-[0-9]{10,14}-[a-f0-9]{60,}"),
    Rule(
        "slack-webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9]{8,14}/[A-Za-z0-9]{8,24}/[A-Za-z0-9/]{16,})",
    ),
    Rule(
        "discord-webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,})"
    ),
    Rule(
        "discord-bot-token",
        ("discord",),
        r"(?i)discord[\w.-]{0,20}" + _IS + r"([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})",
    ),
    Rule(
        "teams-webhook",
        ("webhook.office.com",),
        r"webhook\.office\.com/webhookb2/([^\s\"']{40,}/[a-f0-9]{32}/[^\s\"']+)",
    ),
    Rule("telegram-bot-token", (":aa",), r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    Rule("twilio-key", ("sk",), r"SK[a-f0-9]{32}\b"),
    Rule("sendgrid-key", ("sg.",), r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    Rule("mailgun-key", ("key-",), r"key-[a-f0-9]{32}\b"),
    Rule("mailchimp-key", ("-us",), r"[a-f0-9]{32}-us[0-9]{1,2}\b"),
    Rule("brevo-key", ("xkeysib-",), r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    # Money and shops
    Rule(
        "stripe-key",
        ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"),
        r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}",
    ),
    Rule("stripe-webhook-secret", ("whsec_",), r"whsec_[A-Za-z0-9+/]{32,}={0,2}"),
    Rule(
        "square-token",
        ("sq0atp-", "sq0csp-", "eaaa"),
        r"(?:sq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}|EAAA[A-Za-z0-9_-]{60}\b)",
    ),
    Rule("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    Rule("braintree-token", ("access_token$",), r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    Rule("easypost-key", ("ezak", "eztk"), r"EZ[AT]K[A-Za-z0-9]{54}"),
    Rule("flutterwave-key", ("flwseck",), r"FLWSECK(?:_TEST)?-[a-h0-9]{12,32}-X"),
    Rule("duffel-token", ("duffel_",), r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}"),
    # Watching, and office work
    Rule(
        "datadog-key",
        ("datadog", "dd_"),
        r"(?i)(?:datadog[\w.-]{0,20}|\bdd_(?:api|app)_)key" + _IS + r"([a-f0-9]{40}|[a-f0-9]{32})" + _HEX_END,
    ),
    Rule("dynatrace-token", ("dt0",), r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Rule(
        "grafana-token", ("glsa_", "glc_"), r"(?:glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_eyJ[A-Za-z0-9+/]{32,}={0,2})"
    ),
    Rule("new-relic-key", ("nrak-", "nral-"), r"NRA[KL]-[A-Z0-9]{27,42}"),
    Rule("sentry-token", ("sntrys_", "sntryu_"), r"(?:sntrys_eyJ[A-Za-z0-9+/_=-]{60,}|sntryu_[a-f0-9]{64})"),
    Rule("okta-token", ("ssws", "okta"), r"(?i)(?:ssws |okta[\w.-]{0,20}token" + _IS + r")(00[A-Za-z0-9_-]{40})"),
    Rule("snyk-token", ("snyk",), r"(?i)snyk[\w.-]{0,10}(?:token|key)" + _IS + rf"({_UUID})"),
    Rule("postman-key", ("pmak-",), r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Rule("linear-key", ("lin_api_", "lin_oauth_"), r"lin_(?:api|oauth)_[A-Za-z0-9]{40,64}"),
    Rule("notion-token", ("ntn_",), r"ntn_[0-9]{11}[A-Za-z0-9]{35}\b"),
    Rule("airtable-token", ("pat",), r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    Rule("figma-token", ("figd_",), r"figd_[A-Za-z0-9_-]{40}"),
    Rule("dropbox-token", ("sl.",), r"sl\.(?:u\.)?[A-Za-z0-9_-]{130,}"),
    Rule("contentful-token", ("cfpat-",), r"CFPAT-[A-Za-z0-9_-]{43}"),
    Rule("readme-key", ("rdme_",), r"rdme_[a-z0-9]{70}"),
    Rule("typeform-token", ("tfp_",), r"tfp_[A-Za-z0-9_=.-]{44,59}"),
    Rule("adobe-secret", ("p8e-",), r"p8e-[A-Za-z0-9_-]{32}"),
    Rule("frameio-token", ("fio-u-",), r"fio-u-[A-Za-z0-9_=-]{64}"),
)
"""Patterns that are right almost always: a hit blocks what is published or applied."""

_NAMED = (
    r"(?i)(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key"
    r"|signing[_-]?key|encryption[_-]?key|credentials?)"
)
_NAMED_KEYWORDS = ("passw", "passphrase", "secret", "token", "key", "credential")

MASKING_RULES: tuple[Rule, ...] = (
    Rule(
        "authorization",
        ("authorization",),
        r"(?i)authorization" + _IS + r"(?:bearer|basic|token|digest|negotiate|apikey)\s+([^\r\n\"'`\\]{6,})",
    ),
    Rule(
        "bare-authorization",
        ("authorization",),
        r"(?i)authorization" + _IS + r"([^\s\"'`\\,;(){}\[\]]{6,})",
        unquoted=True,
    ),
    Rule("bearer", ("bearer",), r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})", unquoted=True),
    Rule(
        "header",
        ("api-key", "-token", "-signature"),
        r"(?i)(?:x-api-key|api-key|private-token|job-token|deploy-token|x-[a-z-]{0,30}(?:token|signature(?:-256)?))"
        + _IS
        + r"([^\s\"'`\\,;]{6,})",
    ),
    Rule("cookie", ("cookie",), r"(?i)\bcookie" + _IS + r"([^\s=;\"']{1,80}=[^\r\n\"'\\]{4,})"),
    Rule("url-password", ("://",), r"://[^\s/:@\"'<>]*:([^\s/\"'<>]+)@"),
    Rule("url-token", ("://",), r"://([^\s/:@\"'<>]{20,})@", unquoted=True),
    Rule(
        "url-parameter",
        ("token=", "key=", "sig=", "signature=", "secret=", "password=", "code="),
        r"(?i)[?&;](?:[\w-]{0,30}(?:token|key|secret|signature)|sig|password|code)=([^&\s\"'<>#\\]{8,})",
    ),
    Rule(
        "login",
        ("-u", "login"),
        r"(?:\s(?:-u|--user)[ =][\"']?[^\s:\"']{1,100}:|\blogin[ \t]+\S+[ \t]+password[ \t]+)([^\s\"']{4,})",
    ),
    Rule(
        "flag",
        _NAMED_KEYWORDS,
        r"(?i)--[a-z-]{0,30}(?:password|passphrase|secret|token|key)[= ][\"']?([^\s\"'-][^\s\"']{3,})",
    ),
    Rule(
        "variable",
        (*_NAMED_KEYWORDS, "_pwd"),
        r"(?:^|[\s;,\"'(\[{])(?:(?:[A-Z0-9_]*_)?(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?)"
        r"|[A-Z0-9_]+_(?:KEY|PWD))(?:_?[0-9]{1,2})?=[\"']?([^\s\"']{4,})",
    ),
    Rule("connection-string", ("password=", "pwd="), r"(?i);\s*(?:password|pwd)=([^;\"'\s]{4,})"),
    Rule("quoted-secret", _NAMED_KEYWORDS, _NAMED + _SAYS + r"""\\?["'`]([^"'`\\\r\n]{6,})\\?["'`]"""),
    Rule(
        "bare-secret",
        _NAMED_KEYWORDS,
        _NAMED + _SAYS + r"""([^\s"'`,;&<>(){}\[\]|\\]{6,})(?:[\s"'`,;&<>)}\]|\\]|$)""",
        unquoted=True,
    ),
)
"""Patterns that know a secret by what stands around it: a hit is masked, and blocks nothing."""

PUBLISHED_EXAMPLES = frozenset({"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"})
"""Values that the documentation of their makers prints."""
