/** Marks that often stand together in code and JSON. */
export const MARKS: readonly string[] = [
	...'\\n \\t \\" () {} [] ); => == === != !== <= >= && || ++ += -- // /* */ /** ": ":" "," {" "} #! ${ `` ``` ... :: -> </ />'.split(
		" ",
	),
	...'":{" "},{" "},"  "]}}},{" ":[" ":["  ["  "] .\\n :\\n )\\n .\\n- 1. 2. 3. 9007199254740991 2020-12 ]; },'
		.split(" ")
		.filter(Boolean),
	"\n\n",
	". ",
	", ",
	": ",
];

/** Words that code, prose and OpenCode's tools often use; each also exists with a space before it. */
export const WORDS: readonly string[] = `
the of and to in is that for it as with on by this be are at from or an have not you all can will one has more if no
out so up into only then other which their time these may some do what there when your how about any each new first
use used using must should would could also after before between than them they was were been where while because
file files path line lines text name names value values number numbers list array string strings object function
functions return returns const let var class import export default async await true false null undefined void type
interface extends implements public private static readonly module require exports package test tests expect equal
assert error errors throw catch try finally case switch break continue else for while print echo exit set unset local
shift done then esac elif fi grep sed awk sort uniq head tail cut cat wc find mkdir touch chmod sudo bash shell script
command commands run runs output input argument arguments option options param parameter parameters result results
read write edit create created delete update change changes changed add added remove removed move copy rename replace
git commit branch status diff log message messages user users system assistant tool tools task tasks agent model call
calls content request response key keys id index length size count total sum mean average min max start stop end begin
example examples description required optional properties property schema json yaml data code source target project
directory folder workspace home working environment platform today date time day week month year second seconds minute
hello world answer question note notes warning important never always make sure need needs want help please follow
following instructions instruction provide provided given call called result check checks checked pass passed fail
failed failing solve solved solution search binary left right middle low high mid fizz buzz level info warn debug
node python java rust main app server client port host address http https url web page api test user home work tmp
write read edit glob task skill question filePath oldString newString replaceAll command description workdir timeout
pattern offset limit subagent prompt todo todos pending completed progress cancelled priority medium webfetch format
multiple opencode unless specific instead single available current existing information specialized conventions
sequentially markdown correct parallel operations directly including draft absolute possible session avoid include
specified creating codebase directories prefer matches surrounding actions explanation editing location spaces match
already contain specify conversation asked across matching perform quickly automatically relevant verification
documentation displayed understand steps independent interactive context occurrences capability same performance
engineering explaining generation proper exists like writing execute instance secrets concise integer prefix larger
complex exactly components library framework security searching executing running incorrect full sections complete style
just maximum minimum useful supports doing look detailed previous feedback libraries consider implementation standard
different patterns access reading verify intended quoting milliseconds truncated written together requested inspect exact
ensure found identify modify large its longer skills uses back includes fresh resume since short during feature software
configuration persistent etc execution push config without indentation expressions containing characters references
background available exploration step structured immediately repository permission temporary outside external parent
operation separate good hooks issue issues preserve space part adding replacing renaming open better valid contents regex
does returned later trailing know repeated well duplicate summary generally tell research intent best locations general
mark based keep order explicit features retrieve generate give comments otherwise maintaining critical next appropriate
contains additional assume language practices determine tags usage structure under application station window sorted
wanted whole exactly expected column columns comma letter letters upper lower case word words empty missing ing tion ment
able ness less ful ous ive ize ated ting ter ted ers ally ness ence ance pre con dis com pro per est ight ould ther
`
	.trim()
	.split(/\s+/);
