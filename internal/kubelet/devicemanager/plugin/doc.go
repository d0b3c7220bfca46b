// Package plugin speaks the device plugin API v1beta1: the registration service on the kubelet's
// socket, and one client for each plugin that registered there.
//
// In: registrations over the socket, plugins' streams of devices. Out: calls to Handler, which the
// device manager is. A plugin that hangs, breaks its stream, floods or sends nonsense costs nothing
// but itself: each has a goroutine of its own, answers are waited for no longer than a limit, and
// of many reports in a row only the newest is looked at.
package plugin
