package store

import (
	"fmt"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// ignoredWarnings are parts of messages that a single member on a socket always logs.
var ignoredWarnings = []string{
	"use of closed network connection",
	"same port",
	"single port",
	"simple token is not cryptographically signed",
	"applying request took too long", // the API server logs slow requests itself
	"the server is already initialized as member before, starting as etcd member...",
	"failed to serve",
	"setting up serving from embedded etcd failed.", // at each close
	"failed to update storage version",              // before the first snapshot
	"error encountered",
}

// newEtcdLogger returns etcd's logger: warnings and errors go to klog, ignoredWarnings at V(4)
// only. What would exit the process panics instead, so that launchEtcd can return it.
func newEtcdLogger() *zap.Logger {
	return zap.New(klogCore{}, zap.WithFatalHook(panicHook{}))
}

// panicHook panics with etcd's fatal message. etcd must not continue after a failed write to its
// log: it would acknowledge what is not on disk.
type panicHook struct{}

// OnWrite implements zapcore.CheckWriteHook.
func (panicHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	panic(panicMessage(e.Message, enc.Fields["error"]))
}

// panicMessage returns the text of the panic, with a remedy where the disk is full.
func panicMessage(message string, cause any) string {
	text := "etcd cannot go on: " + message
	if cause != nil {
		text += fmt.Sprintf(": %v", cause)
	}
	if strings.Contains(text, syscall.ENOSPC.Error()) {
		text += ": make room on the disk of the data directory and start again; every acknowledged write is kept"
	}
	return text
}

// klogCore is a zapcore.Core over klog.
type klogCore struct{ fields []zapcore.Field }

func (b klogCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (b klogCore) With(f []zapcore.Field) zapcore.Core {
	return klogCore{append(b.fields[:len(b.fields):len(b.fields)], f...)}
}

func (b klogCore) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

func (b klogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		f.AddTo(enc)
	}
	text := e.Message
	if err, ok := enc.Fields["error"].(string); ok {
		text += ": " + err
	}
	for _, h := range ignoredWarnings {
		if strings.Contains(text, h) {
			klog.V(4).InfoS("etcd", "message", text)
			return nil
		}
	}
	kv := make([]any, 0, 2*len(enc.Fields))
	for k, v := range enc.Fields {
		kv = append(kv, k, v)
	}
	if e.Level >= zapcore.ErrorLevel {
		klog.ErrorS(nil, "etcd: "+e.Message, kv...)
		return nil
	}
	klog.V(1).InfoS("etcd: "+e.Message, kv...)
	return nil
}

func (b klogCore) Sync() error { return nil }
