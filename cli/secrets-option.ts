import { Option } from "commander";

/** `--secrets`: where runners find the secrets that pipelines name. */
export function secretsOption(): Option {
  return new Option(
    "--secrets <source>",
    "where pipelines' secrets are: a folder with <name>/<key> files, or kubernetes[:<namespace>]",
  ).env("SLUICE_SECRETS");
}
