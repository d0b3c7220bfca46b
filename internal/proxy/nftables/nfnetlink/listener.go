package nfnetlink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Notification is what others did to the table.
type Notification struct {
	// Generation is the number that the rules of the network namespace got by it; 0: not known.
	Generation uint32
	// Chains and Sets are those that were made, changed or taken away, by name.
	Chains, Sets []string
	// Overrun tells that there was more than could be heard, or that the table itself came or went.
	Overrun bool
	// Err is why nothing more is heard: the last that is told.
	Err error
}

// Listen tells of changes of the table that did not come by its line, until ctx ends. Nothing wakes
// it for what the line sends; other tables' changes cost a look at their names.
func (t *Table) Listen(ctx context.Context, tell func(Notification)) error {
	l := t.Conn
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listenConn == nil {
		listenConn, err := l.openListener()
		if err != nil {
			return err
		}
		l.listenConn, l.listeners = listenConn, map[*Table]*listener{}
		go l.receive(listenConn)
	}
	one := &listener{tell}
	l.listeners[t] = one
	context.AfterFunc(ctx, func() { l.removeListener(t, one) })
	return nil
}

// listener is who is told of a table.
type listener struct{ notify func(Notification) }

// openListener opens a socket that hears of rules. The lock is held.
func (l *Conn) openListener() (*netlink.Conn, error) {
	listenConn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	if err = filterOwnPort(listenConn, l.listenPort); err == nil {
		err = listenConn.JoinGroup(unix.NFNLGRP_NFTABLES)
	}
	if err != nil {
		_ = listenConn.Close()
		return nil, fmt.Errorf("hear of changes of rules: %w", err)
	}
	return listenConn, nil
}

// removeListener tells a table nothing more; the last one closes the ears.
func (l *Conn) removeListener(t *Table, one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners[t] != one {
		return // somebody listens anew
	}
	if delete(l.listeners, t); len(l.listeners) == 0 {
		l.closeListener()
	}
}

// closeListener lets go of the listening socket. The lock is held.
func (l *Conn) closeListener() {
	if l.listenConn != nil {
		_ = l.listenConn.Close()
		l.listenConn = nil
	}
}

// filterOwnPort drops, in the kernel, what is told of a socket: before it could fill the ears'
// room.
func filterOwnPort(listenConn *netlink.Conn, own uint32) error {
	const port = 12 // of the message that tells: nlmsg_pid
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: port, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: hostToNetwork(own), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	return listenConn.SetBPF(filter)
}

// receive gathers what a transaction changes until the message that ends it, for as long as
// somebody listens.
func (l *Conn) receive(listenConn *netlink.Conn) {
	notifications := map[*Table]*Notification{}
	for {
		got, err := listenConn.Receive()
		if errors.Is(err, unix.ENOBUFS) { // of whom it told is lost too
			l.notifyAll(listenConn, Notification{Overrun: true})
			clear(notifications)
			continue
		}
		if err != nil {
			for _, one := range l.stopListening(listenConn) {
				// what came meanwhile is unknown
				one.notify(Notification{Overrun: true, Err: fmt.Errorf("hear of changes of rules: %w", err)})
			}
			return
		}
		for _, m := range got {
			if m.Header.Type != netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
				l.collect(m, notifications)
				continue
			}
			for t, h := range notifications {
				h.Generation = uint32Of(findAttribute(attributes(m), unix.NFTA_GEN_ID))
				l.notify(listenConn, t, *h)
			}
			clear(notifications)
		}
	}
}

// stopListening is the end of listening at a socket, unless it has been let go of already; it
// returns who listened. Whoever of them asks anew when told gets another socket.
func (l *Conn) stopListening(listenConn *netlink.Conn) []*listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listenConn != listenConn {
		return nil
	}
	l.closeListener()
	return slices.Collect(maps.Values(l.listeners))
}

// notify tells one table, if it listens at this socket still.
func (l *Conn) notify(listenConn *netlink.Conn, t *Table, h Notification) {
	l.mu.Lock()
	one, open := l.listeners[t], l.listenConn == listenConn
	l.mu.Unlock()
	if open && one != nil {
		one.notify(h)
	}
}

func (l *Conn) notifyAll(listenConn *netlink.Conn, h Notification) {
	for _, t := range l.listening() {
		l.notify(listenConn, t, h)
	}
}

func (l *Conn) listening() []*Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.listeners))
}

// collect adds what one message tells to what was heard of its table.
func (l *Conn) collect(m netlink.Message, notifications map[*Table]*Notification) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return
	}
	a := attributes(m)
	// every kind of message has the table's name in its first attribute; sets and elements have the
	// set's in the second
	const table, set = 1, 2
	for _, t := range l.listening() {
		if m.Data[0] != t.byteFamily() || cString(findAttribute(a, table)) != t.name {
			continue
		}
		if notifications[t] == nil {
			notifications[t] = &Notification{}
		}
		h := notifications[t]
		switch m.Header.Type & 0xff {
		case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE:
			h.Overrun = true
		case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
			h.Chains = append(h.Chains, cString(findAttribute(a, unix.NFTA_CHAIN_NAME)))
		case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
			h.Chains = append(h.Chains, cString(findAttribute(a, unix.NFTA_RULE_CHAIN)))
		default:
			h.Sets = append(h.Sets, cString(findAttribute(a, set)))
		}
	}
}

// Generation is the number of the rules of the network namespace: each transaction of anybody adds
// one.
func (t *Table) Generation() (uint32, error) {
	got, err := t.request(unix.NFT_MSG_GETGEN, 0, nil)
	if err != nil {
		return 0, err
	}
	if len(got) != 1 {
		return 0, fmt.Errorf("the generation of rules: %d answers, want one", len(got))
	}
	return uint32Of(findAttribute(attributes(got[0]), unix.NFTA_GEN_ID)), nil
}
