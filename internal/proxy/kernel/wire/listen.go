package wire

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

// Heard is what others did to the table.
type Heard struct {
	// Generation is the number that the rules of the network namespace got by it; 0: not known.
	Generation uint32
	// Chains and Sets are those that were made, changed or taken away, by name.
	Chains, Sets []string
	// Lost tells that there was more than could be heard, or that the table itself came or went.
	Lost bool
	// Ended is why nothing more is heard: the last that is told.
	Ended error
}

// Listen tells of changes of the table that did not come by its line, until ctx ends. Nothing wakes it for what the line sends; other tables' changes
// cost a look at their names.
func (t *Table) Listen(ctx context.Context, tell func(Heard)) error {
	l := t.Line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ears == nil {
		ears, err := l.prick()
		if err != nil {
			return err
		}
		l.ears, l.listeners = ears, map[*Table]*listener{}
		go l.hear(ears)
	}
	one := &listener{tell}
	l.listeners[t] = one
	context.AfterFunc(ctx, func() { l.forget(t, one) })
	return nil
}

// listener is who is told of a table.
type listener struct{ tell func(Heard) }

// prick opens a socket that hears of rules. The lock is held.
func (l *Line) prick() (*netlink.Conn, error) {
	ears, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	if err = deafen(ears, l.own); err == nil {
		err = ears.JoinGroup(unix.NFNLGRP_NFTABLES)
	}
	if err != nil {
		_ = ears.Close()
		return nil, fmt.Errorf("hear of changes of rules: %w", err)
	}
	return ears, nil
}

// forget tells a table nothing more; the last one closes the ears.
func (l *Line) forget(t *Table, one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners[t] != one {
		return // somebody listens anew
	}
	if delete(l.listeners, t); len(l.listeners) == 0 {
		l.close()
	}
}

// close lets go of the listening socket. The lock is held.
func (l *Line) close() {
	if l.ears != nil {
		_ = l.ears.Close()
		l.ears = nil
	}
}

// deafen drops, in the kernel, what is told of a socket: before it could fill the ears' room.
func deafen(ears *netlink.Conn, own uint32) error {
	const port = 12 // of the message that tells: nlmsg_pid
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: port, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: swap(own), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	return ears.SetBPF(filter)
}

// hear gathers what a transaction changes until the message that ends it, for as long as somebody listens.
func (l *Line) hear(ears *netlink.Conn) {
	heard := map[*Table]*Heard{}
	for {
		got, err := ears.Receive()
		if errors.Is(err, unix.ENOBUFS) { // of whom it told is lost too
			l.tellAll(ears, Heard{Lost: true})
			clear(heard)
			continue
		}
		if err != nil {
			for _, one := range l.end(ears) {
				one.tell(Heard{Lost: true, Ended: fmt.Errorf("hear of changes of rules: %w", err)}) // what came meanwhile is unknown
			}
			return
		}
		for _, m := range got {
			if m.Header.Type != netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
				l.note(m, heard)
				continue
			}
			for t, h := range heard {
				h.Generation = number0(find(attributes(m), unix.NFTA_GEN_ID))
				l.tell(ears, t, *h)
			}
			clear(heard)
		}
	}
}

// end is the end of listening at a socket, unless it has been let go of already; it returns who listened. Whoever of them asks anew when told gets another socket.
func (l *Line) end(ears *netlink.Conn) []*listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ears != ears {
		return nil
	}
	l.close()
	return slices.Collect(maps.Values(l.listeners))
}

// tell tells one table, if it listens at this socket still.
func (l *Line) tell(ears *netlink.Conn, t *Table, h Heard) {
	l.mu.Lock()
	one, open := l.listeners[t], l.ears == ears
	l.mu.Unlock()
	if open && one != nil {
		one.tell(h)
	}
}

func (l *Line) tellAll(ears *netlink.Conn, h Heard) {
	for _, t := range l.listening() {
		l.tell(ears, t, h)
	}
}

func (l *Line) listening() []*Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.listeners))
}

// note adds what one message tells to what was heard of its table.
func (l *Line) note(m netlink.Message, heard map[*Table]*Heard) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 {
		return
	}
	a := attributes(m)
	const table, set = 1, 2 // every kind of message has the table's name in its first attribute; sets and elements have the set's in the second
	for _, t := range l.listening() {
		if m.Data[0] != t.byteFamily() || string0(find(a, table)) != t.name {
			continue
		}
		if heard[t] == nil {
			heard[t] = &Heard{}
		}
		h := heard[t]
		switch m.Header.Type & 0xff {
		case unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE:
			h.Lost = true
		case unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN:
			h.Chains = append(h.Chains, string0(find(a, unix.NFTA_CHAIN_NAME)))
		case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
			h.Chains = append(h.Chains, string0(find(a, unix.NFTA_RULE_CHAIN)))
		default:
			h.Sets = append(h.Sets, string0(find(a, set)))
		}
	}
}

// Generation is the number of the rules of the network namespace: each transaction of anybody adds one.
func (t *Table) Generation() (uint32, error) {
	got, err := t.ask(unix.NFT_MSG_GETGEN, 0, nil)
	if err != nil {
		return 0, err
	}
	if len(got) != 1 {
		return 0, fmt.Errorf("the generation of rules: %d answers, want one", len(got))
	}
	return number0(find(attributes(got[0]), unix.NFTA_GEN_ID)), nil
}
