package wire

import (
	"context"
	"errors"
	"fmt"

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

// Listen tells of changes of the table that did not come by Send, until ctx ends. Nothing wakes it for what Send does; other tables' changes
// cost a look at their names.
func (t *Table) Listen(ctx context.Context, tell func(Heard)) error {
	ears, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	t.mu.Lock()
	t.ears = ears
	err = t.deafen()
	t.mu.Unlock()
	if err == nil {
		err = ears.JoinGroup(unix.NFNLGRP_NFTABLES)
	}
	if err != nil {
		t.forget(ears)
		return fmt.Errorf("hear of changes of rules: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = ears.Close() })
	go func() {
		defer stop()
		defer t.forget(ears)
		t.hear(ctx, ears, tell)
	}()
	return nil
}

// forget lets go of a listening socket: later requests are not to be kept from it.
func (t *Table) forget(ears *netlink.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = ears.Close() // closed already where ctx has ended: a second time does no harm
	if t.ears == ears {
		t.ears = nil
	}
}

// deafen drops, in the kernel, what is told of the table's own socket. The lock is held.
func (t *Table) deafen() error {
	const port = 12 // of the message that tells: nlmsg_pid
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: port, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: swap(t.own), SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	return t.ears.SetBPF(filter)
}

// hear gathers what a transaction changes until the message that ends it.
func (t *Table) hear(ctx context.Context, ears *netlink.Conn, tell func(Heard)) {
	var h Heard
	for {
		got, err := ears.Receive()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !errors.Is(err, unix.ENOBUFS) {
				tell(Heard{Lost: true, Ended: fmt.Errorf("hear of changes of rules: %w", err)}) // what came meanwhile is unknown
				return
			}
			h.Lost = true
			tell(h)
			h = Heard{}
			continue
		}
		for _, m := range got {
			if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
				if h.Lost || len(h.Chains)+len(h.Sets) > 0 {
					h.Generation = number0(find(attributes(m), unix.NFTA_GEN_ID))
					tell(h)
				}
				h = Heard{}
				continue
			}
			t.note(m, &h)
		}
	}
}

// note adds what one message tells.
func (t *Table) note(m netlink.Message, h *Heard) {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < 4 || m.Data[0] != t.byteFamily() {
		return
	}
	a := attributes(m)
	const table, set = 1, 2 // every kind of message has the table's name in its first attribute; sets and elements have the set's in the second
	if string0(find(a, table)) != t.name {
		return
	}
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
