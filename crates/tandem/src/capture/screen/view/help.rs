//! What the keys do.

/// The page that `?` opens.
pub(super) const HELP: &str = "\
List
  Up, Down, j, k, PgUp, PgDn, Home, End   go about; End follows what comes
  Enter      ladder of the call
  Space      select, for saving
  /  F3      show the calls that contain a text
  f  F7      filter: method: from: to: address: state: call-id:
  < >        sort by the column before, after
  z          turn the order round
  t  F10     choose columns: Space shows or hides one
  s  F2      save the selected calls, or this one, as pcapng
  i          metrics and counts
  p          pause
  c  F5      clear the list
Ladder
  Enter      the whole message
  d          mark a message; d on another one shows their difference
  r          RTP streams of the call: codec, packets, loss, jitter (also in the list)
Everywhere
  ?  F1      this page
  Esc, q     back; in the list Esc ends search and filter, q the program
";
