// Package dashboard serves the page of a cluster: nodes and Pods as they are, a Pod's life, why it
// is as it is, what would happen if, and the way of a packet.
//
// In: who asks (Identity) and a way to be that person at the API server (Options.Config). Every
// read is made with that person's rights; what is forbidden is answered as forbidden. Nothing is
// written but dry runs. Out: static assets, JSON, and one stream of changes (GET /api/now).
//
// Nobody is let in by being on this machine: `gantry dashboard` shows the person's credentials once
// and gets a one-time token, which the browser exchanges for a session cookie. Requests whose Host
// or Origin is not this server's loopback address are refused, so that no other site's page can
// ask.
//
// All answers are computed by the packages that the commands use: explain, trace, trace/packet,
// probelint. To add a calculator of *What if*: one row in Calculators.
package dashboard
