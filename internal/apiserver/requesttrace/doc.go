// Package requesttrace writes down how one write goes through the server, for a client that asks
// and may know.
//
// A request with the header journal.StoryAsk is followed: who was found to send it, what was
// decided about it, what each admission plugin, webhook and policy changed or refused, what the
// kind's own rules changed, what the store did, each with its time. The story goes back in the
// header journal.StoryTell, whether the write succeeded or was refused, to users who may "explain"
// the resource (journal.StoryVerb) besides writing it. In: the chain's parts, wrapped by a Tracer.
// Out: journal.Story. Requests that do not ask cost one load of a counter per wrapped call.
package requesttrace
