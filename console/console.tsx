import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { Link, Route, Router, Switch } from "wouter";
import type { PipelineGraph } from "../protocol/pipelines.ts";
import { Gateway, type Key } from "./gateway/gateway.ts";
import { SessionContext, useLive } from "./gateway/session.ts";
import { Login } from "./pages/login.tsx";
import { Now } from "./pages/now.tsx";
import { Page } from "./parts/page.tsx";
import { Broken, Shell } from "./parts/shell.tsx";

const PipelinesPage = lazy(() => import("./pages/pipelines/pipelines.tsx"));
const PipelinePage = lazy(() => import("./pages/pipelines/pipeline.tsx"));
const SpecificationPage = lazy(() => import("./pages/pipelines/specification.tsx"));
const GraphPage = lazy(() => import("./pages/graph/graph.tsx"));
const JobPage = lazy(() => import("./pages/job.tsx"));
const ReposPages = lazy(() => import("./pages/repos/repos.tsx"));
const KeysPage = lazy(() => import("./pages/keys.tsx"));
const NodesPage = lazy(() => import("./pages/nodes.tsx"));

/**
 * The whole console. Without a key every page is the login, under its own address, so that a link to any page survives it.
 * With the session go all answers that it was given.
 */
export function Console() {
  const [loggedIn, setLoggedIn] = useState<{ readonly gateway: Gateway; readonly client: QueryClient }>();
  const [farewell, setFarewell] = useState<string>();
  const begin = useCallback(async (key: Key): Promise<void> => {
    const gateway = new Gateway(key);
    // What the first page shows proves the key.
    await gateway.call("/now");
    setLoggedIn({ gateway, client: new QueryClient() });
    setFarewell(undefined);
  }, []);
  const end = useCallback(
    (why?: string): void => {
      loggedIn?.gateway.end();
      loggedIn?.client.clear();
      setLoggedIn(undefined);
      setFarewell(why);
    },
    [loggedIn],
  );
  const session = useMemo(() => loggedIn && { gateway: loggedIn.gateway, end }, [loggedIn, end]);
  if (!loggedIn || !session) return <Login farewell={farewell} begin={begin} />;
  return (
    <SessionContext value={session}>
      <QueryClientProvider client={loggedIn.client}>
        <Router base="/console">
          <Shell>
            <Broken>
              <Suspense fallback={<Loading />}>
                <Switch>
                  <Route path="/" component={Now} />
                  <Route path="/jobs/:job">{({ job }) => <JobPage key={job} job={job} />}</Route>
                  <Route path="/repos/*?" component={ReposPages} />
                  <Route path="/pipelines" component={PipelinesPage} />
                  <Route path="/new/pipeline">
                    <SpecificationPage />
                  </Route>
                  <Route path="/pipelines/:name">
                    {({ name }) => <PipelinePage key={name} name={name} />}
                  </Route>
                  <Route path="/pipelines/:name/edit">
                    {({ name }) => <SpecificationPage key={name} name={name} />}
                  </Route>
                  <Route path="/graph" component={GraphRoute} />
                  <Route path="/nodes" component={NodesPage} />
                  <Route path="/keys" component={KeysPage} />
                  <Route>
                    <Page title="There is no such page">
                      <p>
                        The address names no page of the console. <Link href="/">Now</Link> shows what runs.
                      </p>
                    </Page>
                  </Route>
                </Switch>
              </Suspense>
            </Broken>
          </Shell>
        </Router>
      </QueryClientProvider>
    </SessionContext>
  );
}

/** What places and draws the graph is loaded while the gateway is asked what to draw: neither waits for the other. */
function GraphRoute() {
  const live = useLive<PipelineGraph>("/graph");
  return (
    <Suspense fallback={<Loading />}>
      <GraphPage live={live} />
    </Suspense>
  );
}

function Loading() {
  return <p className="quiet pad">Loading the page…</p>;
}
