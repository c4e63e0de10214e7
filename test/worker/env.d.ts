import type { D1Migration } from "@cloudflare/vitest-plugin";

declare global {
  namespace Cloudflare {
    interface Env {
      TEST_MIGRATIONS: D1Migration[];
      TEST_COST_PAGE: string;
      SLUICE_ACCESS_KEY_ID: string;
      SLUICE_SECRET_ACCESS_KEY: string;
    }
  }
}
