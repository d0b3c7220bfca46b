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

// Notification is one transaction of another program on the table.
type Notification struct {
	// Generation is the ruleset generation of the network namespace after the transaction; 0: not
	// known.
	Generation uint32
	// Chains and Sets are the names of those that were added, changed or deleted.
	Chains, Sets []string
	// Overrun: notifications were lost, or the table itself was added or deleted.
	Overrun bool
	// Err is why the listener stopped. Such a notification is the last one.
	Err error
}

// Listen calls notify, from another goroutine, for each change of the table that was not made
// through its Conn, until ctx ends. Changes of other tables only cost decoding their names.
func (t *Table) Listen(ctx context.Context, notify func(Notification)) error {
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
	one := &listener{notify}
	l.listeners[t] = one
	context.AfterFunc(ctx, func() { l.removeListener(t, one) })
	return nil
}

// listener is a table's subscriber.
type listener struct{ notify func(Notification) }

// openListener opens a socket that gets nf_tables notifications. The caller holds the lock.
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

// removeListener unsubscribes a table; the last one closes the socket.
func (l *Conn) removeListener(t *Table, one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners[t] != one {
		return // there is a newer listener
	}
	if delete(l.listeners, t); len(l.listeners) == 0 {
		l.closeListener()
	}
}

// closeListener closes the listening socket. The caller holds the lock.
func (l *Conn) closeListener() {
	if l.listenConn != nil {
		_ = l.listenConn.Close()
		l.listenConn = nil
	}
}

// filterOwnPort has the kernel drop notifications of changes made through the request socket, so
// that they cannot fill the receive buffer.
func filterOwnPort(listenConn *netlink.Conn, own uint32) error {
	const port = 12 // offset of nlmsg_pid in a message
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

// receive collects the changes of each transaction up to its final message and notifies the tables,
// until the socket is closed.
func (l *Conn) receive(listenConn *netlink.Conn) {
	notifications := map[*Table]*Notification{}
	for {
		got, err := listenConn.Receive()
		if errors.Is(err, unix.ENOBUFS) { // the tables that the lost messages were about are unknown too
			l.notifyAll(listenConn, Notification{Overrun: true})
			clear(notifications)
			continue
		}
		if err != nil {
			for _, one := range l.stopListening(listenConn) {
				// changes since then are unknown
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

// stopListening ends listening at a socket, unless that has happened already, and returns the
// listeners to notify. One that calls Listen again gets another socket.
func (l *Conn) stopListening(listenConn *netlink.Conn) []*listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listenConn != listenConn {
		return nil
	}
	l.closeListener()
	return slices.Collect(maps.Values(l.listeners))
}

// notify notifies one table if it still listens at this socket.
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

// collect adds the content of one message to its table's notification.
func (l *Conn) collect(m netlink.Message, notifications map[*Table]*Notification) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return
	}
	a := attributes(m)
	// each kind of message has the table's name in its first attribute; sets and elements have the
	// set's name in the second
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

// Generation returns the ruleset generation of the network namespace; every transaction of any
// program adds one.
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
