// Package requesttrace records how one write passes through the API server, and returns the record
// to a client that asks for it and may read it.
//
// A write with the header journal.ExplainHeader is recorded: who authenticated, what was
// authorized, what each admission plugin, webhook and policy changed or refused, what the kind's
// strategy changed, and what storage did, each step with its time. The trace returns in the header
// journal.TraceHeader, whether the write succeeded or not, to users who have the verb
// journal.ExplainVerb on the resource.
//
// In: the parts of the handler chain, wrapped by a Tracer. Out: journal.RequestTrace. A request
// without the header costs one atomic load per wrapped call.
package requesttrace
