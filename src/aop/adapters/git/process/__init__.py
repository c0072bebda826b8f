"""Git processes: starting git in a neutral environment and parsing its output."""
