package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/comfygit-ai/studio-sidecar/sidecar"
)

// callbackConsumer is before a run's id where its callback is kept.
const callbackConsumer = "callback/"

// maxDeliveries bounds what is read at once.
const maxDeliveries = 500

var _ sidecar.DeliveryStore = (*Store)(nil)

// addDelivery keeps what a new run asked for.
func (tx *Tx) addDelivery(run *sidecar.Run) error {
	if run.Callback == nil {
		return nil
	}
	target, err := json.Marshal(run.Callback)
	if err != nil {
		return fmt.Errorf("encode callback: %w", err)
	}
	_, err = tx.Exec("INSERT INTO cursors (consumer, target) VALUES (?, ?)", callbackConsumer+string(run.ID), string(target))
	return err
}

// Deliveries lists what is left to tell, with an id above after, oldest first;
// at most 500 of them.
func (s *Store) Deliveries(ctx context.Context, after int64) ([]sidecar.Delivery, error) {
	var found []sidecar.Delivery
	err := s.view(ctx, false, func(q querier) error {
		found = nil
		rows, err := q.query(`SELECT id, consumer, target, seq, attempts, due_at, error FROM cursors
			WHERE id > ? ORDER BY id LIMIT ?`, after, maxDeliveries)
		return each(rows, err, func(row scanner) error {
			d, err := scanDelivery(row)
			found = append(found, d)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return found, nil
}

func scanDelivery(row scanner) (sidecar.Delivery, error) {
	var d sidecar.Delivery
	var consumer, target, due textCell
	if err := row.Scan(&d.ID, &consumer, &target, &d.Told, &d.Attempts, &due, &d.Error); err != nil {
		return d, err
	}
	d.Run = sidecar.RunID(strings.TrimPrefix(string(consumer), callbackConsumer))
	d.DueAt = timeOf(due)
	if err := json.Unmarshal([]byte(target), &d.Callback); err != nil {
		return d, fmt.Errorf("read the callback of run %s: %w", d.Run, err)
	}
	return d, nil
}

// SaveDelivery writes down how far a delivery is.
func (s *Store) SaveDelivery(ctx context.Context, d sidecar.Delivery) error {
	err := s.Do(ctx, func(tx *Tx) error {
		_, err := tx.Exec("UPDATE cursors SET seq = ?, attempts = ?, due_at = ?, error = ? WHERE id = ?",
			d.Told, int64(d.Attempts), sidecar.FormatTime(d.DueAt), d.Error, d.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("save delivery of run %s: %w", d.Run, err)
	}
	return nil
}

// DropDelivery removes a delivery.
func (s *Store) DropDelivery(ctx context.Context, d sidecar.Delivery) error {
	err := s.Do(ctx, func(tx *Tx) error {
		_, err := tx.Exec("DELETE FROM cursors WHERE id = ?", d.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop delivery of run %s: %w", d.Run, err)
	}
	return nil
}

// secretBytes is the size of a secret: that of the hashes made with it.
const secretBytes = 32

// Secret returns the secret of a name, which is drawn when it is first asked
// for and stays with the file.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("draw a secret: %w", err)
	}
	err := s.Do(ctx, func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO sidecar_meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING", "secret_"+name, secret); err != nil {
			return err
		}
		var kept []byte
		_, err := one(tx, []any{&kept}, "SELECT value FROM sidecar_meta WHERE key = ?", "secret_"+name)
		secret = kept
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep a secret: %w", err)
	}
	return secret, nil
}
