package nfnetlink

import (
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// TableContents is the content of a table.
type TableContents struct {
	// ChainUses maps each chain to its use count: its rules plus the verdicts that lead to it.
	ChainUses map[string]int
	// Sets are the names of all named sets and maps.
	Sets []string
	// Elements are the elements of the frame's sets, with their verdicts.
	Elements map[rules.Element]string
}

// List reads the table. A table that does not exist is empty, not an error.
func (t *Table) List() (TableContents, error) {
	l := TableContents{ChainUses: map[string]int{}, Elements: map[rules.Element]string{}}
	// The request names the table; older kernels ignore that and list the chains of the whole
	// family.
	got, err := t.request(unix.NFT_MSG_GETCHAIN, netlink.Dump, attrString(nil, unix.NFTA_CHAIN_TABLE, t.name))
	if err != nil && !isNotExist(err) {
		return l, fmt.Errorf("list chains: %w", err)
	}
	for _, m := range got {
		a := attributes(m)
		if cString(findAttribute(a, unix.NFTA_CHAIN_TABLE)) == t.name {
			l.ChainUses[cString(findAttribute(a, unix.NFTA_CHAIN_NAME))] = int(
				uint32Of(findAttribute(a, unix.NFTA_CHAIN_USE)))
		}
	}
	got, err = t.request(unix.NFT_MSG_GETSET, netlink.Dump, attrString(nil, unix.NFTA_SET_TABLE, t.name))
	if err != nil && !isNotExist(err) {
		return l, fmt.Errorf("list sets: %w", err)
	}
	for _, m := range got {
		name := cString(findAttribute(attributes(m), unix.NFTA_SET_NAME))
		l.Sets = append(l.Sets, name)
		if k, ok := t.setTypes[name]; ok {
			if err := t.elements(name, k, l.Elements); err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

func (t *Table) elements(set string, k setType, to map[rules.Element]string) error {
	got, err := t.request(unix.NFT_MSG_GETSETELEM, netlink.Dump,
		attrString(attrString(nil, unix.NFTA_SET_ELEM_LIST_TABLE, t.name), unix.NFTA_SET_ELEM_LIST_SET, set))
	if err != nil {
		return fmt.Errorf("list %s: %w", set, err)
	}
	for _, m := range got {
		for list := findAttribute(attributes(m), unix.NFTA_SET_ELEM_LIST_ELEMENTS); len(list) > 0; {
			var one []byte
			_, one, list = nextAttribute(list)
			key, err := k.decodeKey(findAttribute(findAttribute(one, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE))
			if err != nil {
				return fmt.Errorf("list %s: %w", set, err)
			}
			text := ""
			if k.data != nil {
				if text, err = k.data.decodeKey(findAttribute(findAttribute(one, unix.NFTA_SET_ELEM_DATA),
					unix.NFTA_DATA_VALUE)); err != nil {
					return fmt.Errorf("list %s: %w", set, err)
				}
			}
			if k.isVerdictMap {
				v := findAttribute(findAttribute(one, unix.NFTA_SET_ELEM_DATA), unix.NFTA_DATA_VERDICT)
				kind := expr.VerdictKind(int32(uint32Of(findAttribute(v, unix.NFTA_VERDICT_CODE))))
				text = verdict{
					expr.Verdict{Kind: kind, Chain: cString(findAttribute(v, unix.NFTA_VERDICT_CHAIN))}}.text()
			}
			to[rules.Element{Set: set, Key: key}] = text
		}
	}
	return nil
}

func isNotExist(err error) bool { return errors.Is(err, unix.ENOENT) }

// attributes returns the attributes of a message.
func attributes(m netlink.Message) []byte {
	if len(m.Data) < 4 {
		return nil
	}
	return m.Data[4:]
}

// findAttribute returns the data of the first attribute of kind want, or nil.
func findAttribute(b []byte, want uint16) []byte {
	for len(b) > 0 {
		var kind uint16
		var data []byte
		if kind, data, b = nextAttribute(b); kind == want {
			return data
		}
	}
	return nil
}
