/** Marks that often stand together in code and JSON. */
export const MARKS: readonly string[] =
	'\\n \\t \\" \n\n () () {} [] ); () => == === != !== <= >= && || ++ += -- // /* */ /** ": "," {" "} #! ${ `` ``` ... :: -> </ /> \';'.split(
		" ",
	);

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
`
	.trim()
	.split(/\s+/);
