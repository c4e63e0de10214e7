import type { Command } from "../../command.ts";
import { DEFAULT_DATA } from "../../gateway/connection/connection.ts";
import type { DevOptions } from "../../local/run-dev.ts";
import { withRunnerTerms } from "../../local/runner-config.ts";
import { wholeNumber } from "../../options.ts";

const MAX_RUNNERS = 64;

export function addDev(program: Command): void {
  const command = program
    .command("dev")
    .summary("run a gateway and runners on this machine")
    .description(
      "Runs the whole service in the foreground: the gateway, its data in a folder, and runners for pipelines. If no container engine answers here, commands run as processes with your rights, unless --wait-for-engine says to wait for one; the greeting says which it is. The first Ctrl-C lets the runners finish the datums at work and stops, the second stops those too.\n\nThe root key is SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY; if they are not set, one is made at the first start and kept in the data folder.\n\nMore variables: SLUICE_DOMAIN (buckets are also reached as <bucket>.<domain>), SLUICE_UPLOAD_DAYS (days after which an abandoned multipart upload goes; 7), SLUICE_KEEP_JOBS (how many of the newest jobs of each pipeline are listed; 10000), SLUICE_SESSION_TTL (the time after which an open commit goes to which nothing is added; 24h) and SLUICE_SESSION_MAX_TTL (the longest that may be asked for; 168h), SLUICE_KEEP (how much of their history new buckets keep: commits:<n>, days:<n>, both with a comma between, or all, the default), SLUICE_DELETE (empty-only: S3 tools delete new buckets only while they are empty; any), SLUICE_LAST_MODIFIED (whose time Last-Modified is: branch, the default, or object), SLUICE_BRANCH_BYTES (what the rows of one branch may take up; 10000000000 bytes), SLUICE_DISK_ENCRYPTED (on: the disk encrypts with AES-256 what is on it), SLUICE_REQUEST_LOG (on: each request is a line in the log; off), SLUICE_LOG (the least that is logged: debug, info, warn or error; info), SLUICE_ENCRYPTION_KEY (the base64 of 32 bytes, which encrypts the secrets of access keys; else one is made and kept in the data folder). SLUICE_ACCESS_KEY_ID_PREVIOUS, SLUICE_SECRET_ACCESS_KEY_PREVIOUS and SLUICE_ENCRYPTION_KEY_PREVIOUS hold the keys from before while they are being changed.\n\nIts runners have a key of their own, which is made anew at each start and allows what runners do.",
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on; 0 takes a free one",
      wholeNumber({ min: 0, max: 65535 }),
      8787,
    )
    .option("--data <folder>", "everything that lasts is in this folder", DEFAULT_DATA)
    .option(
      "--runners <number>",
      `how many runners, up to ${MAX_RUNNERS}; 0 is the gateway alone`,
      wholeNumber({ min: 0, max: MAX_RUNNERS }),
      1,
    )
    .option(
      "--body-limit <bytes>",
      "refuse larger bodies in front of the gateway, as Cloudflare does (100 MB on most plans); to try clients",
      wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    )
    // Loaded only here: the host is heavy, and the other commands should start at once.
    .action(async (options: DevOptions) => (await import("../../local/run-dev.ts")).runDev(options));
  withRunnerTerms(command)
    .jsonOption()
    .examples("sluice dev", "sluice dev --port 9000 --data /srv/sluice", "sluice dev --runners 0");
}
