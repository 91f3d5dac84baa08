import { describe, expect, test } from "vitest";
import { example } from "../fixtures/paddock.ts";
import { openStage, scriptAgent } from "../rollout/fixture.ts";

const clocks = { createS: 60, setupS: 60, agentS: 60, verifyS: 60, teardownS: 60 };

const PROGRAM = `cat > x.sh <<'END'
#!/bin/sh
echo ran > /home/user/logs/verifier/ran
END
chmod +x x.sh; x=$PWD/x.sh; rm -f .git/MERGE_HEAD
git -c user.name=Eve -c user.email=eve@example.org commit -q --allow-empty -m Empty; echo >> src/duration.mjs
`;
const NAMED = "git config core.fsmonitor $x; git config core.pager $x; git config diff.external $x";
/** One object that is not there is asked of a server, which is a program. */
const FETCHED = `git config core.repositoryFormatVersion 1; git config extensions.partialClone o; git config remote.o.promisor true
git config remote.o.url "ext::$x"; git config protocol.ext.allow always
rm -f .git/objects/$(git rev-parse HEAD | sed 's,..,&/,')`;

/** Repositories that name a program, in ways that outlive a copy whose configuration is written anew. */
const REPOSITORIES: [what: string, script: string][] = [
	["its configuration, which cannot be overwritten", `${NAMED}; chmod 444 .git/config`],
	["the configuration of another folder", `${NAMED}; cp -r .git common; echo $PWD/common > .git/commondir`],
	["the configuration of a repository elsewhere", `${NAMED}; mv .git real; echo "gitdir: $PWD/real" > .git`],
	["a server for what is missing", `${FETCHED}; chmod 444 .git/config`],
	[
		"its hooks, attributes and filters",
		`git config filter.f.clean $x; git config filter.f.smudge $x; git config diff.f.textconv $x
		echo '* filter=f diff=f' | tee .gitattributes > .git/info/attributes
		for hook in post-index-change reference-transaction; do cp x.sh .git/hooks/$hook; done; chmod 444 .git/config`,
	],
];

describe.each(["fix-failing-test", "merge-conflict"])(
	"the example %s runs, with its rights, no program from",
	(name) => {
		test.each(REPOSITORIES)("%s", async (_, script) => {
			await using stage = await openStage(scriptAgent(PROGRAM + script));
			const asked = await example(name);
			const verify = [...asked.verify, 'test ! -e "$HOME/logs/verifier/ran"'];
			const end = await stage.play({ ...asked, verify, clocks });
			const passed = end.summary?.verify.map(({ exitCode }) => exitCode === 0);
			expect(passed).toEqual([...asked.verify.map(() => false), true]);
		});
	},
);
