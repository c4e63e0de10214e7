/** The two pipelines of the demo. Their commands use nothing that a bare Linux lacks: sh, awk, grep, tr, wc, sort. */

/** The input of the demo: repo `data`, branch `master`. */
export const DATA_BUCKET = "master.data";
export const PROFILE_BUCKET = "master.profile";
export const REPORT_BUCKET = "master.report";
export const REPORT_FILE = "report.txt";

/** Path of a file's profile in the branch that `profile` writes. */
export function profilePath(file: string): string {
  return `${file}.profile`;
}

// One datum is one file: how many records, and of each field how many records fill it.
const PROFILE_SCRIPT = String.raw`
for file in /pfs/data/*; do
  name=$(basename "$file")
  case "$name" in
    *.csv)
      awk -F, '
        NR == 1 { fields = NF; for (i = 1; i <= NF; i++) field[i] = $i; next }
        { for (i = 1; i <= fields; i++) if ($i != "") filled[i]++ }
        END {
          printf "records\t%d\n", NR - 1
          for (i = 1; i <= fields; i++) printf "field\t%s\t%d\n", field[i], filled[i]
        }' "$file" ;;
    *.json)
      printf 'records\t%d\n' "$(tr -cd '{' <"$file" | wc -c)"
      grep -oE '"[^"]+" *: *("([^"\\]|\\.)*"|[^",}]+)' "$file" | awk '
        {
          match($0, /^"[^"]+"/)
          name = substr($0, 2, RLENGTH - 2)
          value = substr($0, RLENGTH + 1)
          seen[name]
          if (value !~ /^ *: *null *$/) filled[name]++
        }
        END { for (name in seen) printf "field\t%s\t%d\n", name, filled[name] }' ;;
  esac | sort >"/pfs/out/$name.profile"
done`;

// One datum is all profiles.
const REPORT_SCRIPT = String.raw`
awk -F'\t' '
  FNR == 1 { name[++files] = FILENAME; sub(/.*\//, "", name[files]); sub(/\.profile$/, "", name[files]) }
  $1 == "records" { records[files] = $2; total += $2 }
  $1 == "field" {
    fields[files]++
    if (!(files in rarest) || $3 < least[files]) { rarest[files] = $2; least[files] = $3 }
  }
  END {
    printf "%-22s %8s %7s  %s\n", "FILE", "RECORDS", "FIELDS", "LEAST FILLED FIELD"
    for (i = 1; i <= files; i++)
      printf "%-22s %8d %7d  %s\n", name[i], records[i], fields[i], \
        least[i] < records[i] ? rarest[i] " (" least[i] ")" : "none: all are full"
    printf "%-22s %8d\n", files " files", total
  }' /pfs/profile/* >/pfs/out/report.txt`;

const SHELL = {
  image: "busybox",
  cmd: ["sh", "-eu"],
  // Bytes are bytes, and names sort the same everywhere.
  env: { LC_ALL: "C" },
};

export const PROFILE_SPEC = {
  pipeline: { name: "profile" },
  transform: { ...SHELL, stdin: lines(PROFILE_SCRIPT) },
  inputs: [{ repo: { name: "data" }, glob: "/*" }],
};

export const REPORT_SPEC = {
  pipeline: { name: "report" },
  transform: { ...SHELL, stdin: lines(REPORT_SCRIPT) },
  inputs: [{ repo: { name: "profile" }, glob: "/" }],
};

function lines(script: string): string[] {
  return script.trim().split("\n");
}
